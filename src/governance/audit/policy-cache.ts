import { sql, type Transaction } from 'kysely'
import { facts } from '../../tools/facts.ts'
import { getTool } from '../../tools/index.ts'
import type { Database, Db } from '../../db/schema/index.ts'
import {
  compileLabelRule,
  compileRule,
  joinRules,
  type CompiledLabelRule,
  type CompiledPolicy,
  type CompiledRule,
} from '../../policy/compile.ts'
import type { LabelRuleBody, RuleBody } from '../../policy/rule.ts'
import { compileToolAccess, type ToolAccess } from '../../policy/tool-access.ts'
import { effectiveLimits, type Limits } from '../../contract/plan-limits.ts'
import { connectedOf, liveRowSql, type Connected, type LiveRow } from './connected.ts'
import { heapBytes } from '../../shared/byte-cache.ts'
import { readSettings, type GovernanceSettings } from '../../policy/settings.ts'
import { notFound } from '../errors.ts'

/** The rules, settings and limits of one organization at one policy version. */
export interface LoadedPolicy {
  readonly version: number
  readonly compiled: CompiledPolicy
  readonly toolAccess: ToolAccess
  /** The connections of the organization and its members (tools/connections.ts). */
  readonly connections: Connected
  readonly settings: GovernanceSettings
  readonly limits: Limits
  /** The active webhooks. */
  readonly webhooks: readonly SubscribedWebhook[]
  /** The reason of the freeze. Is null if the organization is not frozen. */
  readonly frozen: string | null
  /**
   * The compiled rules with their texts. When a later version is loaded, rules with the same text are not compiled
   * again.
   */
  readonly rules: CompiledRows<CompiledRule>
  readonly labelRules: CompiledRows<CompiledLabelRule>
  /** Estimated bytes in memory. */
  readonly bytes: number
}

export interface SubscribedWebhook {
  readonly id: string
  readonly events: readonly string[]
}

/**
 * Reads a policy. `former` is the policy in memory, or null if there is none. Rules that are unchanged since `former`
 * are not compiled again.
 */
export type LoadPolicy = (former: LoadedPolicy | null) => Promise<LoadedPolicy>

/** Saved and compiled rules or tool policies together take about this many times the memory of the saved ones. */
const compiledFactor = 3

async function readRows(trx: Transaction<Database>, organizationId: string) {
  const organization = await trx
    .selectFrom('organizations')
    .select(['settings', 'plan', 'quota_overrides'])
    .select(
      sql<
        string[]
      >`array(select tool from installation_connections where organization_id = ${organizationId})`.as(
        'connections',
      ),
    )
    .select(
      sql<LiveRow[]>`
        (select coalesce(json_agg(${liveRowSql}), '[]') from connections
         where organization_id = ${organizationId} and status <> 'revoked')`.as('live'),
    )
    .select(
      sql<SubscribedWebhook[]>`
        (select coalesce(json_agg(json_build_object('id', id, 'events', events)), '[]') from webhooks
         where organization_id = ${organizationId} and active)`.as('webhooks'),
    )
    .where('id', '=', organizationId)
    .executeTakeFirstOrThrow()
  const rulesIn = (table: 'rules' | 'label_rules') =>
    trx
      .selectFrom(table)
      .select(['id', sql<string>`body::text`.as('text')])
      .where('organization_id', '=', organizationId)
      .orderBy('position')
      .execute()
  return {
    organization,
    savedRules: await rulesIn('rules'),
    savedLabelRules: await rulesIn('label_rules'),
    toolPolicies: await trx
      .selectFrom('tool_policies')
      .select(['tool_name', 'role', 'allowed', 'restrictions'])
      .where('organization_id', '=', organizationId)
      .execute(),
    overrides: await trx
      .selectFrom('role_policy_overrides')
      .select(['tool_name as toolName', 'role', 'allowed'])
      .where('organization_id', '=', organizationId)
      .execute(),
  }
}

/**
 * Reads everything that belongs to a policy: rules, label rules, tool policies, overrides, connections, webhooks and
 * settings. The caller holds the chain's lock or reads from one snapshot. So all rows belong to the given version. For
 * `former`, see `LoadPolicy`.
 */
export async function loadPolicy(
  trx: Transaction<Database>,
  organizationId: string,
  { policy_version: version, frozen }: { readonly policy_version: number; readonly frozen: string | null },
  former: LoadedPolicy | null,
): Promise<LoadedPolicy> {
  const { organization, savedRules, savedLabelRules, toolPolicies, overrides } = await readRows(
    trx,
    organizationId,
  )
  const settings = readSettings(organization.settings)
  // The service validates rules before it saves them. A saved rule that restricts calls can fail in its evaluation
  // nevertheless. Such a rule counts as matching.
  const rules = compileRows(savedRules, former?.rules, (id, body) =>
    compileRule({ ...(body as RuleBody), id }),
  )
  const labelRules = compileRows(savedLabelRules, former?.labelRules, (id, body) =>
    compileLabelRule({ ...(body as LabelRuleBody), id }),
  )
  const compiled = joinRules(facts, {
    rules: activeOf(rules),
    labelRules: activeOf(labelRules),
    approvalsEnabled: settings.approvals_enabled,
    frozen,
    externalTools: settings.external_tools,
  })
  const limits = effectiveLimits(organization.plan, organization.quota_overrides)
  const bytes =
    bytesOf(rules) +
    bytesOf(labelRules) +
    compiledFactor * heapBytes([toolPolicies, overrides]) +
    heapBytes([organization.live, organization.webhooks])
  const toolAccess = compileToolAccess(
    {
      policies: toolPolicies.map(({ tool_name, role, allowed, restrictions }) => ({
        toolName: tool_name,
        role: role === '' ? null : role,
        allowed,
        restrictions,
      })),
      overrides,
      fallback: settings.default_tool_access,
    },
    (tool) => getTool(tool)?.constraints ?? {},
  )
  const connections = connectedOf(organization.connections, organization.live)
  const { webhooks } = organization
  return {
    version,
    compiled,
    toolAccess,
    connections,
    settings,
    limits,
    webhooks,
    frozen,
    rules,
    labelRules,
    bytes,
  }
}

/** A saved rule. `text` is its body as JSON. */
export interface SavedRow {
  readonly id: string
  readonly text: string
}

/** A rule in compiled form. `text` is the saved body. `compiled` is null if the rule is not active. */
interface CompiledRow<Compiled> {
  readonly text: string
  readonly compiled: Compiled | null
  /** Estimated bytes in memory. */
  readonly bytes: number
}

/** Maps the id of each rule to its compiled rule. The order is the order of the saved rules. */
export type CompiledRows<Compiled> = ReadonlyMap<string, CompiledRow<Compiled>>

/**
 * Compiles saved rules. A rule with the same id and text as in `former` is not compiled again. So a change of one rule
 * costs little, even if the other rules have many domains, which take long to compile.
 */
export function compileRows<Compiled>(
  rows: readonly SavedRow[],
  former: CompiledRows<Compiled> | undefined,
  compile: (id: string, body: object) => Compiled | null,
): CompiledRows<Compiled> {
  return new Map(
    rows.map(({ id, text }) => {
      const known = former?.get(id)
      if (known?.text === text) return [id, known]
      const body = JSON.parse(text) as object
      return [
        id,
        { text, compiled: compile(id, body), bytes: heapBytes(text) + compiledFactor * heapBytes(body) },
      ]
    }),
  )
}

export const activeOf = <Compiled>(rows: CompiledRows<Compiled>): Compiled[] =>
  [...rows.values()].flatMap(({ compiled }) => (compiled === null ? [] : [compiled]))

export const bytesOf = (rows: CompiledRows<unknown>): number =>
  [...rows.values()].reduce((sum, { bytes }) => sum + bytes, 0)

/** Reads an organization's settings. Fills in the defaults. Throws `not_found` if the organization does not exist. */
export async function readGovernance(db: Db, organizationId: string): Promise<GovernanceSettings> {
  const row = await db
    .selectFrom('organizations')
    .select('settings')
    .where('id', '=', organizationId)
    .executeTakeFirst()
  if (row === undefined) throw notFound('organization', organizationId)
  return readSettings(row.settings)
}
