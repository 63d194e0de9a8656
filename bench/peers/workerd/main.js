/** Passes every request on to a worker that is loaded for it alone, with no network. */
const hello = `export default {
  async fetch(request) {
    const { args } = await request.json();
    return Response.json({ result: { hello: args.name } });
  },
};`;

export default {
  fetch(request, { loader }) {
    const worker = loader.load({
      compatibilityDate: '2026-01-01',
      mainModule: 'hello.js',
      modules: { 'hello.js': hello },
      globalOutbound: null,
    });
    return worker.getEntrypoint().fetch(request);
  },
};
