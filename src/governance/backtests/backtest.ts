import { compileRule, joinRules } from '../../policy/compile.ts'
import { facts, getTool } from '../../tools/index.ts'
import type { RuleBody } from '../../policy/rule.ts'
import type { Verdict, JsonObject, Role } from '../../policy/types.ts'
import { activeOf, type LoadedPolicy } from '../audit/policy-cache.ts'
import { policySnapshot } from '../audit/combiner.ts'
import type { Context, Changing, Unsealing } from '../context.ts'
import { type DecidedCall, decidedCalls, newestDecisions, type CallDecision } from '../../db/queries/rules.ts'
import { inSlices, type LongRequest } from '../rules/long-work.ts'
import { refuseLargeDrafts } from '../rules/size-limit.ts'
import type { Db } from '../../db/schema/index.ts'
import { readBounded } from '../page.ts'
import { decide, noRuleAllows, type Call, type CompiledPolicy } from '../../policy/decide.ts'
import type { ToolAccess } from '../../policy/tool-access.ts'
import { decideWithoutParams, type CertainVerdict } from '../../policy/unknown-params.ts'
import { Hole } from '../../policy/values.ts'
import { readCall } from '../../calls/agents/classify.ts'
import { mayDecide } from '../approvals/requirement.ts'
import { effectiveParams, openParams } from '../runs/values/sealed-params.ts'
import { UnsealError } from '../sealing/format.ts'
import { agentInputBinding, keptInputsBinding } from '../sealing/bindings.ts'
import type { Sealer } from '../sealing/sealer.ts'

export const mostSamples = 20

export interface BacktestSample {
  readonly decision_id: string
  readonly run_id: string | null
  readonly step_id: string | null
  readonly item_index: number | null
  readonly session_id: string | null
  readonly tool: string
  readonly decided_at: string
  readonly labels: readonly string[]
  readonly from: { readonly verdict: Verdict; readonly rule_name: string | null }
  readonly to: {
    readonly verdict: Verdict
    readonly rule_name: string | null
    readonly explanation: string
  }
}

export interface Backtest {
  /** Includes the calls that cannot be replayed. */
  readonly examined: number
  readonly changed: number
  readonly not_replayable: readonly { readonly reason: Unreplayed; readonly count: number }[]
  /** By change, such as `allow->deny`. */
  readonly by_change: Readonly<Record<string, number>>
  readonly samples: readonly BacktestSample[]
  /** null if all calls of the window were examined. */
  readonly limit_reached: 'decisions' | 'bytes' | 'time' | null
  readonly oldest: string | null
}

export interface BacktestRequest extends Window, LongRequest {
  readonly drafts: readonly RuleBody[]
  /** The drafts join the saved rules, without the one that `replaces` names, and calls are compared with those. */
  readonly besideSaved: { readonly replaces: string | null } | null
  /** At most so many of the newest decisions. */
  readonly most: number
}

/**
 * Decides recorded calls again, with the drafts in place of the saved rules, and counts the verdicts that change
 * (docs/decisions/0221). Labels and side effects are the recorded ones; tool policies and `approvals_enabled` the
 * present ones. Ignores a freeze. Writes nothing.
 *
 * Throws `validation_error` if the drafts together are too large to save, and the errors of `inSlices`.
 */
export async function backtestRules(
  context: Changing & Unsealing & Pick<Context, 'shares'>,
  organizationId: string,
  { drafts, ...request }: BacktestRequest,
): Promise<Backtest> {
  refuseLargeDrafts(drafts)
  return inSlices(context, request, async (parts) => {
    const saved = await policySnapshot(context, organizationId)
    const policy = await parts.run(() => withDrafts(saved, drafts, request.besideSaved))
    const { slices, limit } = await listCalls(context.db, organizationId, request)
    const count = createCount(policy, request.besideSaved === null ? null : saved)
    const last: LastOpened = { id: null, lines: [] }
    for (const ids of slices) {
      // A call whose decision was deleted meanwhile is left out.
      const { rows } = await readBounded(context.db, (trx) => decidedCalls(organizationId, ids).execute(trx))
      for (const call of rows) {
        if (parts.isOver()) return count.result('time')
        const known = await parts.run(() => openKnown(context.sealer, call, parts, last))
        await parts.run(() => count.add(call, known))
      }
    }
    return count.result(limit)
  })
}

const withDrafts = (
  saved: LoadedPolicy,
  drafts: readonly RuleBody[],
  beside: BacktestRequest['besideSaved'],
): ReplayPolicy => ({
  compiled: joinRules(facts, {
    rules: [
      ...(beside === null ? [] : activeOf(saved.rules).filter(({ id }) => id !== beside.replaces)),
      ...drafts
        .map((draft, index) => compileRule({ ...draft, id: `draft_${index}` }))
        .filter((rule) => rule !== null),
    ],
    labelRules: activeOf(saved.labelRules),
    approvalsEnabled: saved.settings.approvals_enabled,
    externalTools: saved.settings.external_tools,
    agentAccess: saved.settings.default_agent_access,
  }),
  toolAccess: saved.toolAccess,
})

/** `present`: what a call is compared with. null: with what was decided then. */
function createCount(policy: ReplayPolicy, present: ReplayPolicy | null) {
  let [examined, changed] = [0, 0]
  let oldest: string | null = null
  const reasons = new Map<Unreplayed, number>()
  const changes = new Map<string, number>()
  const samples: BacktestSample[] = []
  return {
    add(call: DecidedCall, known: KnownParams): void {
      const from = present === null ? recorded(call) : before(replay(present, call, known))
      const to = typeof from === 'string' ? from : replay(policy, call, known)
      examined += 1
      oldest = call.decided_at.toISOString()
      if (typeof from === 'string' || typeof to === 'string') return addOne(reasons, to as Unreplayed)
      if (to.verdict === from.verdict) return
      changed += 1
      addOne(changes, `${from.verdict}->${to.verdict}`)
      if (samples.length < mostSamples) samples.push(sampleOf(call, from, to))
    },
    result: (limit: Backtest['limit_reached']): Backtest => ({
      examined,
      changed,
      not_replayable: inOrder(reasons).map(([reason, count]) => ({ reason, count })),
      by_change: Object.fromEntries(inOrder(changes)),
      samples,
      limit_reached: limit,
      oldest,
    }),
  }
}

const addOne = <Key>(counts: Map<Key, number>, key: Key): void =>
  void counts.set(key, (counts.get(key) ?? 0) + 1)

const inOrder = <Key extends string>(counts: ReadonlyMap<Key, number>): [Key, number][] =>
  [...counts].sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1))

type Before = BacktestSample['from']

function recorded(call: DecidedCall): Before | Unreplayed {
  const verdict = verdictByRules(call)
  return verdict === null ? 'policy_decided' : { verdict, rule_name: call.rule_name }
}

const before = (now: ReturnType<typeof replay>): Before | Unreplayed =>
  typeof now === 'string' ? now : { verdict: now.verdict, rule_name: now.ruleName }

const sampleOf = (
  call: DecidedCall,
  from: Before,
  to: Exclude<ReturnType<typeof replay>, Unreplayed>,
): BacktestSample => ({
  decision_id: call.id,
  run_id: call.run_id,
  step_id: call.step_id,
  item_index: call.item_index,
  session_id: call.session_id,
  tool: call.tool,
  decided_at: call.decided_at.toISOString(),
  labels: call.labels,
  from,
  to: { verdict: to.verdict, rule_name: to.ruleName, explanation: to.explanation },
})

/** A backtest examines so many of the newest decisions, with so many bytes of sealed parameters together. */
export const mostDecisions = 5_000
export const mostParamBytes = 32 * 1024 ** 2
/** Decisions that are read and replayed together. A single call may have more bytes. */
const sliceRows = 50

/** `since` is inclusive, `until` exclusive; null means no limit. */
export interface Window {
  readonly since: Date | null
  readonly until: Date | null
}

export interface ListedCalls {
  readonly slices: readonly (readonly string[])[]
  /** Why older calls are left out. */
  readonly limit: 'decisions' | 'bytes' | null
}

async function listCalls(
  db: Db,
  organizationId: string,
  { most, ...window }: Window & Pick<BacktestRequest, 'most'>,
): Promise<ListedCalls> {
  const { rows } = await readBounded(db, (trx) =>
    newestDecisions(organizationId, window, most + 1).execute(trx),
  )
  const calls = firstDecisions(rows.slice(0, most))
  const fitting = withinBytes(calls)
  const cutByBytes = fitting.length < calls.length ? 'bytes' : null
  return {
    slices: slicesOf(fitting),
    limit: cutByBytes ?? (rows.length > most ? 'decisions' : null),
  }
}

/** A call is decided again after a retry or an approval; what a person has typed into it is another call. Newest first, in `decisions` and in the result. */
function firstDecisions(decisions: readonly CallDecision[]): CallDecision[] {
  const known = new Set<string>()
  const first: CallDecision[] = []
  for (const decision of decisions.toReversed()) {
    const names = namesOf(decision)
    if (!names.some((name) => known.has(name))) first.push(decision)
    for (const name of names) known.add(name)
  }
  return first.reverse()
}

/** Two decisions belong to the same call if they have a name in common. */
function namesOf(decision: CallDecision): string[] {
  const { run_id, step_id, item_index, session_id, tool_use_id, params_hash, approval_id, supersedes_id } =
    decision
  if (session_id === null) return [`${run_id}/${step_id}/${item_index}${decision.edited ? '/edited' : ''}`]
  const use = tool_use_id === null ? [] : [`${session_id}/${params_hash}/${tool_use_id}`]
  return [...use, ...[approval_id, supersedes_id].filter((id) => id !== null)]
}

function withinBytes(calls: readonly CallDecision[]): readonly CallDecision[] {
  let bytes = 0
  const over = calls.findIndex((call) => (bytes += call.bytes) > mostParamBytes)
  return over < 0 ? calls : calls.slice(0, over)
}

function slicesOf(calls: readonly CallDecision[]): string[][] {
  const slices: string[][] = []
  let bytes = 0
  for (const call of calls) {
    const last = slices.at(-1)
    const fits = last !== undefined && last.length < sliceRows && bytes + call.bytes <= 4 * 1024 ** 2
    if (fits) last.push(call.id)
    else slices.push([call.id])
    bytes = fits ? bytes + call.bytes : call.bytes
  }
  return slices
}

/**
 * Why a recorded call is not decided again.
 * - `parameters_not_kept`: the verdict depends on them, and they were not kept, or for at most 30 days.
 * - `parameters_not_shown`: it depends on parameters that the caller may not see.
 * - `parameters_unreadable`: they cannot be decrypted.
 * - `policy_decided`: not the rules decide, then or now, but a tool policy, a freeze, a limit, or a missing role.
 * - `tool_unknown`: the catalogue no longer has the tool.
 */
export const unreplayed = [
  'parameters_not_kept',
  'parameters_not_shown',
  'parameters_unreadable',
  'policy_decided',
  'tool_unknown',
] as const
export type Unreplayed = (typeof unreplayed)[number]

export interface ReplayPolicy {
  readonly compiled: CompiledPolicy
  readonly toolAccess: ToolAccess
}

type Params = { readonly params: JsonObject } & Pick<Call, 'paramLabels'>

/** The parameters, or why the call is not decided with them. */
export type KnownParams = Params | Exclude<Unreplayed, 'tool_unknown'>

/** The recorded verdict; null if not the rules decided. */
function verdictByRules(call: DecidedCall): Verdict | null {
  const isByRules =
    call.rule_id === null ? reasonsWithoutRule.has(call.reason) : call.reason === call.rule_name
  if (!isByRules) return null
  // The recorded verdict may come from the people who decided the approval that a rule required.
  return call.session_id !== null && call.approval_id !== null ? 'require_approval' : call.verdict
}

const reasonsWithoutRule = new Set(['no rule matched', 'call too large to evaluate', noRuleAllows])

/** Calls of one transaction stand one after the other, so the inputs that were opened last are used again. */
interface LastOpened {
  id: string | null
  lines: readonly string[]
}

async function keptInput(sealer: Sealer, call: DecidedCall, last: LastOpened): Promise<string> {
  const { kept_id: id, kept_line: line, kept_inputs: sealed } = call
  if (last.id !== id)
    last.lines = (await sealer.open(keptInputsBinding(id ?? ''), sealed as Buffer)).split('\n')
  last.id = id
  return last.lines[line ?? -1] ?? '{}'
}

/** Returns a reason if the viewer may not see the parameters, or if rules cannot use them. */
async function openKnown(
  sealer: Sealer,
  call: DecidedCall,
  viewer: { readonly role: Role },
  last: LastOpened,
): Promise<KnownParams> {
  const { run_id: runId, step_id: stepId, run_params, agent_params, kept_inputs } = call
  // What groups alone decide is shown to owners too, who say who is in them.
  const approver = call.by_groups ? 'owner' : call.approver
  try {
    if (call.session_id === null) {
      const tool = getTool(call.tool)
      if (run_params === null || runId === null || stepId === null || tool === undefined)
        return 'parameters_not_kept'
      if (!mayDecide(viewer.role, approver ?? 'admin')) return 'parameters_not_shown'
      const key = { runId, stepId, itemIndex: call.item_index ?? -1 }
      const { params, paramLabels } = await openParams(sealer, key, run_params)
      return {
        params: effectiveParams(tool, params, call.requester_email ?? ''),
        paramLabels: new Map(paramLabels),
      }
    }
    const held = call.approval_id !== null && agent_params !== null
    if (!held && kept_inputs === null) return 'parameters_not_kept'
    if (!mayDecide(viewer.role, approver ?? (held ? 'owner' : 'admin'))) return 'parameters_not_shown'
    const input = held
      ? await sealer.open(agentInputBinding(call.approval_id), agent_params)
      : await keptInput(sealer, call, last)
    const { params } = readCall(call.tool, JSON.parse(input) as JsonObject, {})
    return params === null ? 'policy_decided' : { params }
  } catch (error) {
    if (error instanceof UnsealError) return 'parameters_unreadable'
    throw error
  }
}

function replay(policy: ReplayPolicy, call: DecidedCall, known: KnownParams): CertainVerdict | Unreplayed {
  const { tool, side_effect: sideEffect, destination, labels, session_id } = call
  const source = session_id === null ? 'workflows' : 'agents'
  if (source === 'workflows' && getTool(tool) === undefined) return 'tool_unknown'
  if (known === 'policy_decided') return known
  const params = typeof known === 'string' ? new Hole(null) : known.params
  const refusal = policy.toolAccess.of(call.asker ?? '').refusal({
    tool,
    sideEffect,
    // A person who has left has no role. `member` is the best guess.
    role: call.role ?? 'member',
    authorRoles: [...(call.author_roles ?? []), ...call.typist_roles.map((role) => role ?? 'member')],
    params: source === 'workflows' ? params : null,
  })
  if (refusal !== null) return refusal.isCertain || typeof known !== 'string' ? 'policy_decided' : known
  // Whose agents need a rule that allows each call may have changed since.
  const needsRule = call.reason === noRuleAllows
  const asked = { source, tool, sideEffect, destination, labels, needsRule } as const
  if (typeof known === 'string') return decideWithoutParams(policy.compiled, asked) ?? known
  return decide(policy.compiled, { ...asked, ...known })
}
