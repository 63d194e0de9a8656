import type { Queryable } from '../database.ts';

/**
 * What each session of a namespace's role begins with, where the platform's user is a superuser: nobody else may set
 * these, and the role cannot take them away. What one session's sorts may write to disk; and no text of a script, which
 * may be as long as it likes, gets into PostgreSQL's log.
 */
const settings = { temp_file_limit: '1GB', log_min_messages: 'fatal', log_min_error_statement: 'panic' };
const wanted = Object.entries(settings).map(([name, value]) => `${name}=${value}`);

interface SettingsRow {
  /** Null: of the role in every database. */
  database: string | null;
  /** `name=value`; null when there are none. */
  settings: string[] | null;
  superuser: boolean;
}

const readSettings = `select d.datname as database, s.setconfig as settings,
    (select rolsuper from pg_roles where rolname = current_user) as superuser
  from pg_roles r left join pg_db_role_setting s on s.setrole = r.oid left join pg_database d on d.oid = s.setdatabase
  where r.rolname = $1`;

/** Whether a role's sessions begin with what they should; it may have set something (ALTER ROLE ... SET), which nobody can forbid it. */
export async function hasRightSettings(db: Queryable, role: string): Promise<boolean> {
  const { rows } = await db.query<SettingsRow>({ name: 'role-settings', text: readSettings, values: [role] });
  const all = rows.flatMap((row) => row.settings ?? []);
  const superuser = rows[0]?.superuser ?? false;
  const complete = !superuser || wanted.every((setting) => all.includes(setting));
  return (
    complete && rows.every(({ database }) => database === null) && all.every((setting) => wanted.includes(setting))
  );
}

/** A role's later sessions begin with what they should, and nothing else. */
export async function resetRoleSettings(db: Queryable, role: string): Promise<void> {
  const { rows } = await db.query<SettingsRow>({ name: 'role-settings', text: readSettings, values: [role] });
  for (const { database } of rows) {
    if (database !== null)
      await db.query(`alter role ${role} in database "${database.replaceAll('"', '""')}" reset all`);
  }
  await db.query(`alter role ${role} reset all`);
  if (rows[0]?.superuser !== true) return;
  for (const [name, value] of Object.entries(settings)) await db.query(`alter role ${role} set ${name} = '${value}'`);
}
