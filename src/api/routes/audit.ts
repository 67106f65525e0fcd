import { z } from 'zod'
import type { Response } from 'express'
import { listAudit } from '../../governance/audit/list.ts'
import { auditPeople, mostSearched, searchAudit } from '../../governance/audit/search.ts'
import { filter, flag, instant, wholeNumber } from '../query.ts'
import { ok, tagged, type Call } from '../route.ts'
import { id, time, named } from '../schemas/common.ts'
import { story } from '../schemas/example.ts'
import { exportInParts, readEntries } from '../../governance/audit/export.ts'
import type { ChainEnd } from '../../governance/audit/end-problems.ts'
import { DomainError } from '../../governance/errors.ts'
import { sendParts } from '../send.ts'

const hash = z.string().regex(/^[0-9a-f]{64}$/)

const auditEntry = named('AuditEntry', {
  seq: z.int(),
  id,
  timestamp: time,
  event_type: z.string(),
  organization_id: id,
  actor: z.strictObject({ type: z.string(), id }),
  user_id: id.nullable(),
  workflow_id: id.nullable(),
  run_id: id.nullable(),
  ip_address: z.string().nullable(),
  action: z.string(),
  status: z.string(),
  duration_ms: z.int().nullable(),
  metadata: z.record(z.string(), z.unknown()),
  prev_hash: hash,
  hash,
})

const searched = named('AuditSearched', {
  order: z
    .enum(['newest', 'oldest'])
    .describe('`oldest`: from the creation of the object on whose id was searched'),
  until: time.nullable().describe('the time of the last entry that was read'),
  beyond: z.int().nullable().describe('gives the next entries; null: none is left'),
})

const verification = named('AuditVerification', {
  valid: z.boolean(),
  entries: z.int(),
  head: z.strictObject({ seq: z.int(), hash: z.string() }),
  first_mismatch: z
    .strictObject({
      seq: z.int(),
      id: id.nullable(),
      reason: z.enum(['hash', 'link', 'gap', 'truncated', 'foreign', 'checkpoint']),
      expected: z.string(),
      found: z.string(),
    })
    .nullable(),
  duration_ms: z.int(),
})

const { route, streamRoute } = tagged('Audit')

/** With the key that checks the checkpoint in the answer. */
const keyHeader = 'X-Verifier-Key' as const

const words =
  'The checkpoint is a signed note in the form of C2SP tlog-checkpoint. Its size is the `seq` of the newest entry, and its root hash is the hash of this entry. The header `X-Verifier-Key` has the key that checks it.'

async function checkpointFor(call: Call, response: Response): Promise<string> {
  const { note, problem } = await endOf(call)
  // The key also checks the checkpoints that were kept before a problem.
  showKey(call, response)
  if (note === null || problem !== null) throw mismatch(problem)
  response.setHeader('Content-Type', 'text/plain; charset=utf-8')
  return note
}

/** Before a page is read, the caller's rights are checked again if the last check is older. */
const checkedMilliseconds = 1_000

const exportType = 'application/x-ndjson; charset=utf-8'

async function beginExport(call: Call, response: Response): Promise<{ end: ChainEnd; note: string }> {
  const end = await endOf(call)
  if (end.note === null) throw mismatch(end.problem)
  showKey(call, response)
  response.setHeader('Content-Type', exportType)
  return { end, note: end.note }
}

/** Each read takes a permit of the organization, and gives it back before the client gets the answer. */
const inShare = <T>({ context, identity }: Call, read: () => Promise<T>): Promise<T> =>
  context.shares.look.hold(identity.charged.holderId, async (permit) => {
    const result = await read()
    permit.works()
    return result
  })

const endOf = (call: Call): Promise<ChainEnd> =>
  inShare(call, () => call.context.checkpoints.end(call.caller.organizationId))

function showKey({ context, caller }: Call, response: Response): void {
  response.setHeader(keyHeader, context.checkpoints.verifierKey(caller.organizationId))
}

const mismatch = (problem: string | null): DomainError =>
  new DomainError('conflict', `no checkpoint is signed, because ${problem}: verify the audit log`)

export const auditRoutes = [
  route({
    key: 'GET /organizations/{id}/governance/audit',
    needs: { scope: 'audit:read', role: 'admin', subject: 'organization' },
    summary: 'The audit log, newest first',
    query: z.object({
      page: wholeNumber(1, 1_000_000).default(1),
      per_page: wholeNumber(1, 200).default(50),
      event_type: filter.optional(),
      user_id: filter.optional(),
      since: instant.optional(),
      until: instant.optional(),
      search: filter
        .optional()
        .describe(
          `part of a value of the entry; the answer has up to \`per_page\` of the next ${mostSearched.toLocaleString('en')} entries, and \`searched\``,
        ),
      beyond: wholeNumber(1, 999_999_999).optional().describe('`beyond` of an earlier search, which goes on'),
      people: flag.optional().describe('also everybody who has entries'),
    }),
    example: {
      answers: {
        200: {
          events: [
            {
              seq: 34,
              id: 'evt_01M82XD2H2WJV06QG560MX4R1T',
              timestamp: '2026-11-23T00:37:55.867Z',
              event_type: 'agent_call.decided',
              organization_id: story.organization,
              actor: { type: 'user', id: story.requester },
              user_id: story.requester,
              workflow_id: null,
              run_id: 'run_01M82XD2G88TJYT3DMA7S075CW',
              ip_address: '127.0.0.1',
              action: 'Bash',
              status: 'require_approval',
              duration_ms: null,
              metadata: {
                approval_id: 'apr_01M82XD2H1ZPVCZ3J7GFY5WW0R',
                rule_id: story.rule,
                rule_name: story.ruleName,
                side_effect: 'egress',
              },
              prev_hash: '389020a1159b02c11028c62f4fdcd4b480debdd3f0598ce80220ffbbfb7c355c',
              hash: '48d689c270695ee38ddd38b40a1dc2e7c4eab87fe42bacb867ba55536c866951',
            },
          ],
          names: { [story.requester]: 'Ann Berg <ann@acme.com>' },
          page: 1,
          per_page: 50,
          total: 34,
        },
      },
    },
    responses: {
      200: z.strictObject({
        events: z.array(auditEntry),
        names: z
          .record(z.string(), z.string())
          .describe('of the people and workflows whose ids are in these entries, as they are called now'),
        page: z.int(),
        per_page: z.int(),
        total: z.int().describe('of a search: the number of these entries'),
        searched: searched.optional().describe('of a search'),
        people: z
          .array(z.strictObject({ id, name: z.string() }))
          .optional()
          .describe('with `people=true`: up to 500, by name'),
      }),
    },
    async handle({ context, caller, query }) {
      const { page, per_page: perPage, since, until } = query
      const { organizationId } = caller
      const filters = { eventType: query.event_type, userId: query.user_id, since, until }
      const { search: text, beyond } = query
      const [found, people] = await Promise.all([
        text === undefined
          ? listAudit(context.db, organizationId, filters, page, perPage)
          : searchAudit(context.db, organizationId, filters, { text, beyond }, perPage),
        query.people === true ? auditPeople(context.db, organizationId) : undefined,
      ])
      return ok({ ...found, ...(people === undefined ? {} : { people }) })
    },
  }),
  route({
    key: 'GET /organizations/{id}/audit-events/verify',
    needs: { scope: 'audit:read', role: 'admin', subject: 'organization' },
    summary: 'Recompute the hash chain and report the first entry that does not match',
    description:
      'Also compares the chain with the checkpoint that is kept outside the database. The reason `checkpoint` means: the chain is shorter, has another entry at that place, or the kept file is lost or cannot be used. The reason `foreign` means: the service did not write the entry.',
    responses: { 200: verification },
    waits: true,
    async handle({ context, caller }) {
      const { database, encryptionKeys } = context.config
      const { organizationId } = caller
      const expected = await context.checkpoints.expected(organizationId)
      const request = {
        databaseUrl: database.url,
        appRole: database.appRole,
        organizationId,
        encryptionKeys,
        expected,
      }
      const result = await context.verifier.verify(request, () => context.shares.look.isContended())
      context.auditAlarms.verified(organizationId, result.first_mismatch)
      return ok(result)
    },
  }),
  streamRoute({
    key: 'GET /organizations/{id}/audit-events/checkpoint',
    needs: { scope: 'audit:read', role: 'admin', subject: 'organization' },
    summary: 'A signed checkpoint of the audit log',
    description: `${words} 409 \`conflict\` if the log does not match the checkpoint that is kept outside the database.`,
    contentType: 'text/plain',
    headers: [keyHeader],
    responses: { 200: null },
    async head(call, response) {
      await checkpointFor(call, response)
    },
    async stream(call, _request, response) {
      response.end(await checkpointFor(call, response))
    },
  }),
  streamRoute({
    key: 'GET /organizations/{id}/audit-events/export',
    needs: { scope: 'audit:read', role: 'admin', subject: 'organization' },
    summary: 'The whole audit log as JSON lines, for `countersign verify-audit`',
    description:
      'A line for each entry in the order of `seq`, with `hash` as its first field. The hash covers the line without `"hash":"…",`, which still begins with `{`. The last line has `checkpoint` and `verifier_key`. An answer without this line is not complete. Entries that are appended meanwhile are left out. If the log does not match the checkpoint that is kept outside the database, the last line has the kept checkpoint, and the check of the file fails.',
    contentType: 'application/x-ndjson',
    headers: [keyHeader],
    responses: { 200: null },
    async head(call, response) {
      await beginExport(call, response)
    },
    async stream(call, _request, response) {
      const { context, caller, signal, stillAllowed } = call
      const { organizationId } = caller
      const leave = context.exports.take(organizationId)
      try {
        const { end, note } = await beginExport(call, response)
        const lastLine = { checkpoint: note, verifier_key: context.checkpoints.verifierKey(organizationId) }
        let checkedAt = performance.now()
        const read = async (after: number, last: number) => {
          if (performance.now() - checkedAt > checkedMilliseconds) {
            if (!(await stillAllowed()))
              throw new DomainError('unauthenticated', 'the caller has lost the rights')
            checkedAt = performance.now()
          }
          return inShare(call, () => readEntries(context.db, organizationId, after, last))
        }
        await sendParts(response, 200, exportInParts(read, end, lastLine), {
          contentType: exportType,
          signal,
          stillAllowed,
        })
      } finally {
        leave()
      }
    },
  }),
]
