import type { Response } from 'express'
import { exportInParts, readEntries } from '../../governance/audit/export.ts'
import type { ChainEnd } from '../../governance/audit/end-problems.ts'
import { DomainError } from '../../governance/errors.ts'
import { withShare } from '../../governance/limits/request-shares.ts'
import { streamRoute, type Call } from '../route.ts'
import { sendParts } from '../send.ts'

/** The header with the verifier key. This key checks the checkpoint in the answer. */
const keyHeader = 'X-Verifier-Key' as const

const words =
  'The checkpoint is a signed note in the form of C2SP tlog-checkpoint. Its size is the `seq` of the newest entry, and its root hash is the hash of this entry. The header `X-Verifier-Key` has the key that checks it.'

export const getAuditCheckpoint = streamRoute({
  key: 'GET /organizations/{id}/audit-events/checkpoint',
  summary: 'A signed checkpoint of the audit log',
  description: `${words} 409 \`conflict\` if the log does not match the checkpoint that is kept outside the database.`,
  tag: 'Audit',
  contentType: 'text/plain',
  headers: [keyHeader],
  responses: { 200: null },
  async head(call, response) {
    await checkpointFor(call, response)
  },
  async stream(call, _request, response) {
    response.end(await checkpointFor(call, response))
  },
})

/** Returns the signed note, and sets the headers of the answer. */
async function checkpointFor(call: Call, response: Response): Promise<string> {
  const { note, problem } = await endOf(call)
  // The key also checks the checkpoints that were kept before a problem.
  showKey(call, response)
  if (note === null || problem !== null) throw mismatch(problem)
  response.setHeader('Content-Type', 'text/plain; charset=utf-8')
  return note
}

/** Before a page is read, the caller's rights are checked again if the last check is older than this. */
const checkedMilliseconds = 1_000

export const getAuditExport = streamRoute({
  key: 'GET /organizations/{id}/audit-events/export',
  summary: 'The whole audit log as JSON lines, for `countersign verify-audit`',
  description:
    'A line for each entry in the order of `seq`, with `hash` as its first field. The hash covers the line without `"hash":"…",`, which still begins with `{`. The last line has `checkpoint` and `verifier_key`. An answer without this line is not complete. Entries that are appended meanwhile are left out. If the log does not match the checkpoint that is kept outside the database, the last line has the kept checkpoint, and the check of the file fails.',
  tag: 'Audit',
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
})

const exportType = 'application/x-ndjson; charset=utf-8'

/** Returns the end of the chain with its signed note, and sets the headers of the answer. */
async function beginExport(call: Call, response: Response): Promise<{ end: ChainEnd; note: string }> {
  const end = await endOf(call)
  if (end.note === null) throw mismatch(end.problem)
  showKey(call, response)
  response.setHeader('Content-Type', exportType)
  return { end, note: end.note }
}

/**
 * Reads in the share of the organization. Each read takes a place, and gives the place back before the client gets the
 * answer.
 */
const inShare = <T>({ context, identity }: Call, read: () => Promise<T>): Promise<T> =>
  withShare(context.shares, identity.charged.holderId, 'look', async (place) => {
    const result = await read()
    place.works()
    return result
  })

const endOf = (call: Call): Promise<ChainEnd> =>
  inShare(call, () => call.context.checkpoints.end(call.caller.organizationId))

function showKey({ context, caller }: Call, response: Response): void {
  response.setHeader(keyHeader, context.checkpoints.verifierKey(caller.organizationId))
}

const mismatch = (problem: string | null): DomainError =>
  new DomainError('conflict', `no checkpoint is signed, because ${problem}: verify the audit log`)
