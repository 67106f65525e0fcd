import type { Allowed, Refused, ResolvedCall, Seen, Unseen } from '../calls/runs/call.ts'
import { integrationNamed } from '../tools/index.ts'
import { serviceOf, type ToolDeclaration } from '../tools/kit/tool.ts'
import { diffOf, fieldsOf, type PreviewField } from '../tools/kit/preview.ts'
import { effectId, newId } from '../contract/ids.ts'
import { parseParams } from '../contract/tool-params.ts'
import { sealState, type ApprovedState, approvedState } from '../governance/approvals/approved-state.ts'
import { liveRow } from '../governance/connections/credential.ts'
import type { Context, Unsealing } from '../governance/context.ts'
import type { JsonObject } from '../policy/types.ts'
import { isOutage, raceWithLimit } from './patience.ts'
import {
  invalidParams,
  StateChanged,
  ToolError,
  type State,
  type ToolCall,
  type ToolContext,
} from '../tools/kit/executor.ts'
import { bodiesOf } from '../tools/bodies.ts'
import { createToolServices } from './tool-services.ts'
import { isWithinAudience, type Audience } from '../policy/audience.ts'
import { list, quote } from '../policy/text.ts'

/*
 * What a call changes and the connection that it uses are stored together with the approval, in one commit. A
 * crash before it leaves no approval, and the next attempt reads the state again.
 */

const readMilliseconds = 10_000

export function toolCallOf(
  { key, run, labels }: ResolvedCall,
  params: JsonObject,
  revision: string | null,
): ToolCall<unknown> {
  return {
    params,
    organizationId: run.organizationId,
    runId: run.id,
    stepId: key.stepId,
    itemIndex: key.itemIndex < 0 ? null : key.itemIndex,
    requester: { userId: run.requestedBy },
    idempotencyKey: effectId(key),
    labels,
    revision,
  }
}

/** Uses the credential of the call. Throws ToolError if the thing cannot be read. */
async function readPresent(context: Context, call: ResolvedCall, signal: AbortSignal): Promise<State> {
  const read = (await bodiesOf(call.tool.name))?.state
  if (read === undefined) throw new Error(`no reader for the precondition of \`${call.tool.name}\``)
  return readWith(context, call, signal, read)
}

/** Throws StateChanged if the thing is no longer as the approvers saw it. */
export async function requireRevision(
  context: Context,
  call: ResolvedCall,
  signal: AbortSignal,
  approved: string | null,
): Promise<void> {
  // For every other value of `check`, the tool itself compares the revision.
  if (approved === null || call.tool.precondition?.check !== 'before') return
  const { revision } = await readPresent(context, call, signal)
  if (revision !== approved) throw new StateChanged()
}

/** Uses the credential of the call, and takes at most 10 seconds. */
async function readWith<T>(
  context: Context,
  call: ResolvedCall,
  signal: AbortSignal,
  read: (asked: ToolCall<never>, services: Pick<ToolContext, 'signal' | 'tools'>) => Promise<T>,
): Promise<T> {
  const parsed = call.parsed ?? parsedParams(call)
  const limit = AbortSignal.timeout(readMilliseconds)
  const tools = createToolServices(context)
  const reading = read(toolCallOf(call, parsed, null) as ToolCall<never>, {
    signal: AbortSignal.any([signal, limit]),
    tools,
  })
  return raceWithLimit(reading, limit, () => false)
}

function parsedParams({ tool, params }: ResolvedCall): JsonObject {
  const parsed = parseParams(tool, params)
  if (parsed.ok) return parsed.params
  throw invalidParams("the parameters do not match the tool's schema")
}

/** If a person must decide, reads the state that this person sees, and asks again. */
export async function askSeeing<Answer extends Allowed | Refused | null>(
  context: Context,
  call: ResolvedCall,
  signal: AbortSignal,
  ask: (asked: ResolvedCall) => Promise<Answer | Unseen>,
): Promise<Answer> {
  const decision = await ask(call)
  if (!isUnseen(decision)) return decision
  const again = await ask({ ...call, seen: await seenNow(context, call, signal) })
  if (isUnseen(again)) throw new Error('the call was held without what its approvers see')
  return again
}

const isUnseen = (decision: Allowed | Refused | Unseen | null): decision is Unseen =>
  decision !== null && !decision.go && decision.state === 'unseen'

/** The state is sealed for the next approval. If it cannot be read, the preview says so. */
export async function seenNow(context: Context, call: ResolvedCall, signal: AbortSignal): Promise<Seen> {
  const approvalId = newId('approval')
  const { fields, host, ...used } = await readUsed(context, call)
  const state = await readChanged(context, call, host, signal)
  const all = { ...used, ...state, fields: [...fields, ...state.fields] }
  return { approvalId, sealed: await sealState(context.sealer, approvalId, all) }
}

/** This is read first, so the approval does not cover a connection that replaces it meanwhile. */
async function readUsed(
  context: Context,
  { run, tool }: ResolvedCall,
): Promise<Pick<ApprovedState, 'connection' | 'fields'> & { readonly host: string | null }> {
  const integration = serviceOf(tool)
  if (integration === null) return { fields: [], host: null }
  const { organizationId, requestedBy: requesterId } = run
  const row = await liveRow(context.db, { organizationId, requesterId, integration })
  if (row === undefined) return { connection: null, fields: [], host: null }
  const whose = row.owner_id === null ? 'the organization' : 'the person who runs the workflow'
  const { title = integration } = integrationNamed(integration) ?? {}
  const host = row.destination
  return {
    connection: row.id,
    fields: [
      ...fieldsOf({ connection: `of ${whose}, to ${title} at ${host}` }),
      ...(row.account === null ? [] : saidBy(host, fieldsOf({ account: row.account }))),
    ],
    host,
  }
}

/** The host is named so that approvers do not take these texts for Countersign's words. */
const saidBy = (host: string | null, fields: readonly PreviewField[]): readonly PreviewField[] =>
  host === null ? fields : fields.map((field) => ({ ...field, said_by: host }))

async function readChanged(
  context: Context,
  call: ResolvedCall,
  host: string | null,
  signal: AbortSignal,
): Promise<ApprovedState> {
  const { key, run, tool } = call
  if (tool.precondition === undefined) return { revision: null, fields: [] }
  try {
    const { revision, fields = {}, diff, note } = await readPresent(context, call, signal)
    return {
      revision,
      fields: saidBy(host, fieldsOf(fields)),
      ...(diff === undefined ? {} : { diff: diffOf(diff.before, diff.after) }),
      ...(note === undefined ? {} : { note }),
    }
  } catch (error) {
    if (signal.aborted || isOutage(error)) throw error
    const why = error instanceof ToolError ? ` (\`${error.code}\`)` : ''
    context.log.warn(
      { err: error, tool: tool.name, run_id: run.id, step_id: key.stepId },
      'what a held call changes could not be read',
    )
    const covered = serviceOf(tool) === null ? 'the parameters' : 'the parameters and the connection'
    const note = `It could not be read what the call changes${why}. The approval covers ${covered} alone.`
    return { revision: null, fields: [], note }
  }
}

/** Returns whether an approval can also cover the thing that the call changes, or the connection. */
export const coversMore = (tool: ToolDeclaration): boolean =>
  tool.precondition !== undefined || serviceOf(tool) !== null

/** A part of a sentence, such as `the value in the memory`. */
export const changedBy = ({ precondition }: Pick<ToolDeclaration, 'precondition'>): string =>
  precondition?.of ?? 'what it changes'

/** What the approvers saw besides the parameters. The call acts only if this has not changed. */
export class Approved {
  /** Null allows any revision. */
  readonly revision: string | null
  /** Null: the call must go without a connection. Undefined: any connection is allowed. */
  readonly #connection: string | null | undefined

  constructor(revision: string | null = null, connection?: string | null) {
    this.revision = revision
    this.#connection = connection
  }

  /** `approvalId` is null if the call needed no approval, or if an earlier attempt may have made the call. */
  static async read(context: Unsealing, tool: ToolDeclaration, approvalId: string | null): Promise<Approved> {
    if (approvalId === null || !coversMore(tool)) return new Approved()
    const state = await approvedState(context, approvalId)
    // A tool with `ownService` can work without a connection, so its call must then go without one (null).
    const unsaid = tool.ownService === undefined ? undefined : null
    return new Approved(state?.revision, state?.connection === undefined ? unsaid : state.connection)
  }

  /**
   * Throws StateChanged for another connection. `name` begins with its id, and is null without a connection.
   */
  requireConnection(name: string | null): void {
    const id = name?.split(' ', 1)[0] ?? null
    if (this.#connection === undefined || id === this.#connection) return
    throw new StateChanged('the connection that the call uses')
  }
}

/* Only the service knows who can read the thing that a call writes to. A later change is not noticed. */

/** Throws ToolError if a tool policy does not allow one of the readers. */
export async function requireAudience(
  context: Context,
  call: ResolvedCall,
  signal: AbortSignal,
  audience: Audience,
): Promise<void> {
  if (audience.length === 0) return
  const { name } = call.tool
  const read = (await bodiesOf(name))?.audience
  if (read === undefined) throw new Error(`no reader of the audience for tool \`${name}\``)
  if (isWithinAudience(audience, await readWith(context, call, signal, read))) return
  const only = audience.map((domains) => `only people at ${list(domains.map(quote), 'and')}`).join(' and ')
  const message =
    `a tool policy lets \`${name}\` write to a place if ${only} can read it (\`allowed_domains\`), and other people ` +
    'can read this one: write to another place, or end that sharing'
  throw new ToolError('readers_outside_policy', message)
}
