import { Command, Option } from 'commander';
import { packageVersion } from '../paths.ts';
import { explain } from './explain.ts';

/** Flags of `serve`, each with the variable it stands for (http-api.md, "Start and configuration"). */
export const serveFlags: { flags: string; variable: string; description: string }[] = [
  { flags: '--host <address>', variable: 'JOBCELL_HOST', description: 'address to listen on (default 127.0.0.1)' },
  {
    flags: '--port <number>',
    variable: 'JOBCELL_PORT',
    description: 'port to listen on, 0 for a free one (default 4700)',
  },
  {
    flags: '--database-url <url>',
    variable: 'DATABASE_URL',
    description: 'a PostgreSQL 15 or newer; without it, an embedded one runs on the data folder',
  },
  {
    flags: '--data-dir <folder>',
    variable: 'JOBCELL_DATA_DIR',
    description: 'the embedded database, the generated admin token and secret key (default .jobcell)',
  },
  {
    flags: '--admin-token <token>',
    variable: 'JOBCELL_ADMIN_TOKEN',
    description:
      "the administrator's bearer token, 16 characters or more (default: generated on the first start); other users can " +
      'see a command line, so better use the variable',
  },
  {
    flags: '--secret-key <keys>',
    variable: 'JOBCELL_SECRET_KEY',
    description:
      'what encrypts stored secrets, 32 random characters or more; older keys behind it, after commas (default: generated ' +
      'for an embedded database, none for one elsewhere); better use the variable',
  },
  {
    flags: '--cells <number>',
    variable: 'JOBCELL_CELLS',
    description: 'most sandbox processes at once (default: by memory)',
  },
  {
    flags: '--memory-mb <number>',
    variable: 'JOBCELL_MEMORY_MB',
    description: 'memory all sandboxes together may use before new runs wait (default: half of the machine)',
  },
  {
    flags: '--tailordb-connections <number>',
    variable: 'JOBCELL_TAILORDB_CONNECTIONS',
    description: 'connections of scripts to PostgreSQL at once, half of them for one workspace (default 32)',
  },
  {
    flags: '--lease-s <seconds>',
    variable: 'JOBCELL_LEASE_S',
    description: 'how long a server that fell silent keeps its executions (default 15)',
  },
  {
    flags: '--function-cpu-ms <ms>',
    variable: 'JOBCELL_FUNCTION_CPU_MS',
    description: 'CPU time of a function (default 10000)',
  },
  {
    flags: '--job-function-cpu-ms <ms>',
    variable: 'JOBCELL_JOB_FUNCTION_CPU_MS',
    description: 'CPU time of one run of a job function (default 300000)',
  },
  {
    flags: '--replay <mode>',
    variable: 'JOBCELL_REPLAY',
    description: 'auto, or always: a replay after every step finds non-determinism early (default auto)',
  },
  {
    flags: '--fetch-allow <list>',
    variable: 'JOBCELL_FETCH_ALLOW',
    description: 'private hosts, host:port or CIDR that scripts may fetch from, separated by commas (default none)',
  },
  {
    flags: '--log-level <level>',
    variable: 'JOBCELL_LOG_LEVEL',
    description: 'fatal, error, warn, info, debug, trace or silent (default info)',
  },
];

export async function run(argv: string[]): Promise<void> {
  const program = new Command('jobcell')
    .description('Runs JavaScript job functions in isolated VMs with hard limits, and makes them durable.')
    .version(packageVersion(), '-V, --version', 'show the version')
    .helpOption('-h, --help', 'show this help')
    .helpCommand(false)
    .showHelpAfterError('(see jobcell --help)')
    .configureHelp({ helpWidth: Math.min(process.stdout.columns ?? 100, 110) })
    .addHelpText(
      'after',
      `
Start here:
  jobcell demo                        see an order workflow run, then nothing is left behind
  jobcell serve                       run the server on an embedded database in ./.jobcell
  curl http://127.0.0.1:4700/readyz   ask whether it is ready`,
    );
  program.addCommand(serveCommand().copyInheritedSettings(program));
  program
    .command('demo')
    .description('start a server on a throwaway database, run an order workflow and show its journal')
    .action(async () => {
      const { demo } = await import('./demo.ts');
      await demo();
    });
  // A closed pipe behind `jobcell ... | head` is no failure.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
  });
  try {
    await program.parseAsync(argv);
  } catch (error) {
    console.error(`jobcell: ${explain(error)}`);
    process.exit(1);
  }
}

function serveCommand(): Command {
  const command = new Command('serve').description('run the server until it is stopped (SIGINT or SIGTERM)');
  for (const { flags, variable, description } of serveFlags) {
    command.addOption(new Option(flags, `${description} [${variable}]`));
  }
  command.addHelpText('after', '\nEach flag stands for the variable in brackets and wins over it.');
  return command.action(async () => {
    const environment = { ...process.env };
    for (const option of command.options) {
      const given = command.getOptionValue(option.attributeName()) as string | undefined;
      const flag = serveFlags.find(({ flags }) => flags === option.flags);
      if (given !== undefined && flag !== undefined) environment[flag.variable] = given;
    }
    const { serve } = await import('./serve.ts');
    await serve(environment);
  });
}
