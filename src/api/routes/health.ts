import { createRequire } from 'node:module'
import { join } from 'node:path'
import { sql } from 'kysely'
import { z } from 'zod'
import { adapters } from '../adapters.ts'
import { named } from '../schemas/common.ts'
import type { WriteRefusal } from '../../db/errors.ts'
import type { Db } from '../../db/schema/index.ts'
import type { Context } from '../../governance/context.ts'
import { freeSpace } from '../../governance/upkeep/state-metrics.ts'
import { tagged, ok } from '../route.ts'
import { organizationQuery } from '../query.ts'
import { publicBase } from '../../shared/config.ts'
import { projectRoot } from '../../shared/project-root.ts'
import { ApiError } from '../errors.ts'

const { publicRoute, route } = tagged('Service')

const check = z.enum(['ok', 'down'])
const databaseCheck = z
  .enum(['ok', 'down', 'disk_full', 'read_only'])
  .describe('`disk_full` and `read_only`: it answers, and has refused to write in the last half minute')
const workerCheck = z
  .enum(['ok', 'down', 'unknown'])
  .describe('`unknown`: the database, in which workers report, does not answer or refuses to write')
const diskCheck = z
  .enum(['ok', 'full'])
  .describe('`full`: the disk of the logs, or of the data folder of `npm start`')
const health = named('Health', {
  status: z.enum(['ok', 'degraded']),
  checks: z.strictObject({
    database: databaseCheck,
    temporal: check,
    worker: workerCheck,
    disk: diskCheck,
    audit: z
      .enum(['ok', 'alarm'])
      .describe(
        '`alarm`: an audit log has entries that the service did not write, or a check found that it was changed, or that its kept checkpoint is lost',
      ),
  }),
})

/** A heartbeat writes every five seconds: after so long without a refusal, the database accepts writes. */
const troubleMilliseconds = 30_000
const leastFree = 32 * 1024 * 1024

export const getHealth = publicRoute({
  key: 'GET /health',
  summary: 'Whether the service, its database, Temporal and a worker answer',
  description:
    '503 if the database cannot be reached. `degraded` if the database refuses to write, a disk is full, Temporal or every worker is down, or an audit log was tampered with.',
  responses: { 200: health, 503: health },
  async open(context, services) {
    const [database, temporal, free] = await Promise.all([
      within(() => databaseState(context.db), null),
      within(services.temporal, false),
      within(() => freeBytes(context), Infinity),
    ])
    const trouble = writeTroubleOf(context)
    const checks = {
      database: database === null ? 'down' : (trouble ?? 'ok'),
      temporal: temporal ? 'ok' : 'down',
      worker: workerState(database, trouble),
      disk: free < leastFree ? 'full' : 'ok',
      audit: isAlarmed(context) ? 'alarm' : 'ok',
    }
    const status = Object.values(checks).every((state) => state === 'ok') ? 'ok' : 'degraded'
    return { status: database === null ? 503 : 200, body: { status, checks } }
  },
})

async function databaseState(db: Db): Promise<{ worker: boolean }> {
  const { rows } = await sql<{ worker: boolean }>`
    select exists (select 1 from process_heartbeats where kind = 'worker'
      and seen_at >= clock_timestamp() - make_interval(secs => 20)) as worker`.execute(db)
  return { worker: rows[0]?.worker === true }
}

/**
 * An entry that the service did not write is an alarm for five minutes: every later attempt to add to that audit log
 * sets `auditAlarmAt` again, at most once a minute.
 */
function isAlarmed({ auditAlarmAt, auditAlarms }: Pick<Context, 'auditAlarmAt' | 'auditAlarms'>): boolean {
  if (auditAlarms.any) return true
  return auditAlarmAt !== null && performance.now() - auditAlarmAt < 5 * 60_000
}

/** `unknown` if the heartbeats of living workers can be missing from the database. */
function workerState(
  database: { worker: boolean } | null,
  trouble: WriteRefusal | null,
): 'ok' | 'down' | 'unknown' {
  if (database?.worker === true) return 'ok'
  return database === null || trouble !== null ? 'unknown' : 'down'
}

function writeTroubleOf({ writeTrouble }: Pick<Context, 'writeTrouble'>): WriteRefusal | null {
  const isRecent = writeTrouble !== null && performance.now() - writeTrouble.at < troubleMilliseconds
  return isRecent ? writeTrouble.reason : null
}

async function freeBytes({ config }: Pick<Context, 'config'>): Promise<number> {
  return Math.min(...(await freeSpace(config)).map(({ bytes }) => bytes))
}

async function within<T>(check: () => Promise<T>, otherwise: T): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const patience = new Promise<T>((resolve) => {
    timer = setTimeout(resolve, 2_000, otherwise)
  })
  try {
    return await Promise.race([(async () => check())().catch(() => otherwise), patience])
  } finally {
    clearTimeout(timer)
  }
}

const secretsCheck = z
  .string()
  .describe('`ok`, or a sentence that says what to change; never a secret or its name.')

export const getSecretsHealth = route({
  key: 'GET /health/secrets',
  needs: { scope: 'secrets:*', role: 'admin', subject: 'own' },
  summary: 'Whether the backend of credentials answers, and lets the service list and read',
  query: organizationQuery,
  responses: {
    200: z
      .strictObject({
        status: z.enum(['ok', 'degraded']),
        backend: z.enum(['db', 'aws_secrets_manager']),
        checks: z.strictObject({ list_secrets: secretsCheck, get_secret: secretsCheck }),
      })
      .meta({ id: 'SecretsHealth' }),
  },
  // For the backend of the secrets, which may be slow.
  waits: true,
  async handle({ context }) {
    const checks = await context.secrets.check()
    const isFine = Object.values(checks).every((each) => each === 'ok')
    return ok({ status: isFine ? 'ok' : 'degraded', backend: context.secrets.backend, checks })
  },
})

const { version } = createRequire(import.meta.url)(join(projectRoot(), 'package.json')) as { version: string }

export const integrationRoutes = [
  publicRoute({
    key: 'GET /integrations',
    summary: 'The adapters for agent clients, with their checksums',
    responses: {
      200: z.strictObject({
        files: z.array(
          z.strictObject({
            name: z.string(),
            version: z.string(),
            sha256: z.string(),
            size: z.int(),
            url: z.string(),
          }),
        ),
      }),
    },
    async open({ config }) {
      const files = [...adapters().values()].map(({ name, bytes, sha256 }) => ({
        name,
        version,
        sha256,
        size: bytes.length,
        url: `${publicBase(config)}/api/v1/integrations/${name}`,
      }))
      return ok({ files })
    },
  }),
  publicRoute({
    key: 'GET /integrations/{file}',
    summary: 'One adapter file, exactly as released',
    contentType: 'text/x-python',
    responses: { 200: null },
    async open(_context, _services, request, response) {
      const adapter = adapters().get(String(request.params['file']))
      if (adapter === undefined)
        throw new ApiError('not_found', 'this adapter does not exist: `GET /integrations` lists them')
      const etag = `"${adapter.sha256}"`
      response.setHeader('ETag', etag)
      if (request.headers['if-none-match'] === etag) {
        response.status(304).end()
        return null
      }
      response.setHeader('Content-Type', 'text/x-python; charset=utf-8')
      response.setHeader('Content-Disposition', `attachment; filename="${adapter.name}"`)
      response.status(200).end(adapter.bytes)
      return null
    },
  }),
]
