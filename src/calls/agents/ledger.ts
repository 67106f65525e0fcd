import { sql } from 'kysely'
import { insertInputs, readAgentLedger, writeAgentSessions, type NewInputs } from '../../db/queries/agents.ts'
import { updateApprovals } from '../../db/queries/approvals.ts'
import type { AgentSessionsTable, SessionStatus } from '../../db/schema/agents.ts'
import type { LabelSource } from '../../db/schema/runs.ts'
import type { Role, SideEffect, Verdict } from '../../policy/types.ts'
import { keptInputsBinding } from '../../governance/sealing/bindings.ts'
import type { Seal } from '../../governance/sealing/sealer.ts'
import type { ChainReader, ChainTx } from '../../governance/audit/chain-tx.ts'
import {
  insertApprovals,
  insertDecisions,
  type ApprovalRecord,
  type NewApproval,
  type NewDecision,
} from '../../governance/approvals/records.ts'

/** The person, the client's session id, the hash of tool and parameters, and the client's id of the call. */
export interface CallKey {
  readonly userId: string
  readonly sessionId: string
  /** SHA-256 over `{tool, params}`, hex. */
  readonly paramsHash: string
  readonly toolUseId: string | null
  /** Id of the key or sign-in session that asks. */
  readonly by: string
}

export interface SessionRecord extends Pick<
  AgentSessionsTable,
  'id' | 'user_id' | 'session_id' | 'run_id' | 'agent_name' | 'agent_kind'
> {
  status: SessionStatus
  labels: string[]
  label_sources: LabelSource[]
  unknown_tools: string[]
  written: readonly string[]
  label_bytes: number
  decision_seq: number
  allowed: number
  held: number
  denied: number
  started_at: string
  last_seen_at: string
  ended_at: string | null
}

/** The client may ask again with the same id, e.g. because the answer was lost. */
export interface PriorDecision {
  readonly id: string
  readonly session_id: string
  readonly tool_use_id: string
  readonly tool: string
  readonly side_effect: SideEffect
  readonly params_hash: string
  readonly verdict: Verdict
  readonly rule_name: string | null
  readonly reason: string
  readonly explanation: string
  readonly labels: string[]
  readonly approval_id: string | null
  readonly policy_version: number
  readonly decided_at: string
  /** The call has finished, so a question with the same id is about a new call. */
  readonly observed: boolean
}

/** A row of kept inputs has about so many bytes beside the inputs and 40 for each id. */
const rowBytes = 256

const nameOf = (userId: string, sessionId: string): string => `${userId}\n${sessionId}`
const callOf = (sessionId: string, paramsHash: string): string => `${sessionId}\n${paramsHash}`

/** One statement reads the rows of all calls of a batch, and one statement writes them. */
export class AgentLedger {
  readonly roles = new Map<string, Role>()
  /** Ids of the groups of voters. */
  readonly groups = new Map<string, readonly string[]>()
  /** Members whose address is confirmed. */
  readonly confirmed = new Set<string>()
  /** Keys and sign-in sessions that may still ask. */
  readonly valid = new Set<string>()
  /** Keys whose calls need a rule that allows them. */
  readonly narrow = new Set<string>()
  readonly approvals = new Map<string, ApprovalRecord>()
  readonly newApprovals: NewApproval[] = []
  readonly newDecisions: NewDecision[] = []
  readonly #inputs: { readonly decisionId: string; readonly input: string }[] = []
  #seal: Seal | null = null
  readonly dirtyApprovals = new Set<ApprovalRecord>()
  readonly #sessions = new Map<string, SessionRecord>()
  readonly #byId = new Map<string, SessionRecord>()
  readonly #dirty = new Set<SessionRecord>()
  readonly #priors = new Map<string, PriorDecision[]>()
  readonly #ofCall = new Map<string, ApprovalRecord>()

  session(userId: string, sessionId: string): SessionRecord | undefined {
    return this.#sessions.get(nameOf(userId, sessionId))
  }

  sessionById(id: string): SessionRecord | undefined {
    return this.#byId.get(id)
  }

  addSession(record: SessionRecord): SessionRecord {
    this.#sessions.set(nameOf(record.user_id, record.session_id), record)
    this.#byId.set(record.id, record)
    return record
  }

  /** A session that is marked here gets written. */
  touch(record: SessionRecord): void {
    this.#dirty.add(record)
  }

  /** The newest first, and only those in sessions of this person. */
  priors(userId: string, toolUseId: string): readonly PriorDecision[] {
    return (this.#priors.get(toolUseId) ?? []).filter(
      (prior) => this.#byId.get(prior.session_id)?.user_id === userId,
    )
  }

  addPrior(prior: PriorDecision): void {
    this.#priors.set(prior.tool_use_id, [prior, ...(this.#priors.get(prior.tool_use_id) ?? [])])
  }

  /** The newest one with the same tool and parameters. */
  approvalOf(session: SessionRecord, paramsHash: string): ApprovalRecord | undefined {
    return this.#ofCall.get(callOf(session.id, paramsHash))
  }

  addApproval(approval: NewApproval): void {
    this.newApprovals.push(approval)
    this.keepApproval(approval.record)
  }

  keepApproval(record: ApprovalRecord): void {
    this.approvals.set(record.id, record)
    const key = callOf(record.session_id ?? '', record.params_hash ?? '')
    const known = this.#ofCall.get(key)
    if (known === undefined || known.id < record.id) this.#ofCall.set(key, record)
  }

  /** The inputs of the batch are sealed together when it is written. */
  keep(decisionId: string, { input, seal }: { readonly input: string; readonly seal: Seal }): void {
    this.#inputs.push({ decisionId, input })
    this.#seal = seal
  }

  #keptInputs(tx: ChainTx): NewInputs | null {
    const [first] = this.#inputs
    if (first === undefined || this.#seal === null) return null
    const id = first.decisionId
    // Canonical JSON has no line break.
    const sealed = this.#seal(keptInputsBinding(id), this.#inputs.map(({ input }) => input).join('\n'))
    const bytes = sealed.length + rowBytes + this.#inputs.length * 40
    tx.stores(bytes)
    const decisionIds = this.#inputs.map(({ decisionId }) => decisionId)
    return { id, organizationId: tx.organizationId, decisionIds, sealed, bytes, decidedAt: tx.now }
  }

  write(tx: ChainTx): void {
    const parts = []
    if (this.#dirty.size > 0) parts.push(writeAgentSessions(tx.organizationId, [...this.#dirty]))
    if (this.newApprovals.length > 0) parts.push(insertApprovals(tx, this.newApprovals))
    const moved = [...this.dirtyApprovals].filter(
      (record) => !this.newApprovals.some((each) => each.record === record),
    )
    if (moved.length > 0) parts.push(updateApprovals(moved))
    if (this.newDecisions.length > 0) parts.push(insertDecisions(tx, this.newDecisions))
    const kept = this.#keptInputs(tx)
    if (kept !== null) parts.push(insertInputs(kept))
    if (parts.length > 0) void tx.send(sql`with ${sql.join(parts)} select 1`)
  }
}

/** An earlier answer can be returned again for so long. */
const replayMinutes = 10
/** Only the newest decisions on a call are read. */
const mostPriors = 32

/** Also reads the current roles of askers and voters, and which keys and sign-in sessions are still valid. */
export async function loadAgentLedger(reader: ChainReader, keys: readonly CallKey[]): Promise<AgentLedger> {
  const rows = await reader.send(
    readAgentLedger<SessionRecord, PriorDecision, ApprovalRecord>({
      organizationId: reader.organizationId,
      keys,
      replayMinutes,
      mostPriors,
    }),
  )
  const loaded = rows[0] as (typeof rows)[number]
  const ledger = new AgentLedger()
  for (const session of loaded.sessions ?? []) ledger.addSession(session)
  for (const prior of [...(loaded.priors ?? [])].reverse()) ledger.addPrior(prior)
  for (const approval of loaded.approvals ?? []) ledger.keepApproval(approval)
  for (const id of loaded.valid) ledger.valid.add(id)
  for (const id of loaded.narrow ?? []) ledger.narrow.add(id)
  for (const { user_id, role, confirmed } of loaded.roles ?? []) {
    ledger.roles.set(user_id, role)
    if (confirmed) ledger.confirmed.add(user_id)
  }
  for (const [userId, groups] of Object.entries(loaded.groups ?? {})) ledger.groups.set(userId, groups)
  return ledger
}
