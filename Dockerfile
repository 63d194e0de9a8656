# The server alone: PostgreSQL is another container's (compose.yaml), so neither the embedded one nor the packaged Node
# is installed. docs/deployment.md says how this file is checked.

FROM node:26-slim AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --include=dev --include=optional
COPY tsconfig.json ./
COPY scripts ./scripts
COPY runtime-globals ./runtime-globals
COPY src ./src
RUN node scripts/build.mjs

FROM node:26-slim AS modules
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --omit=dev --omit=optional

FROM node:26-slim
ENV NODE_ENV=production \
    JOBCELL_HOST=0.0.0.0 \
    JOBCELL_PORT=4700 \
    JOBCELL_DATA_DIR=/var/lib/jobcell
WORKDIR /app
COPY package.json LICENSE ./
COPY --from=modules /app/node_modules ./node_modules
COPY --from=build /app/dist ./dist
# The application stays root's: the server can read it and not change it.
RUN mkdir /var/lib/jobcell && chown node:node /var/lib/jobcell && chmod 700 /var/lib/jobcell
USER node
EXPOSE 4700
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s --retries=3 \
    CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.JOBCELL_PORT}/healthz`).then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["node", "/app/dist/jobcell.js"]
CMD ["serve"]
