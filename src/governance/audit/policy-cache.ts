import { sql, type Transaction } from 'kysely'
import { namedGroups, peopleWhoseAgentsNeedRule, someAgentsNeedRule } from '../../db/queries/rules.ts'
import { facts, getTool } from '../../tools/index.ts'
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

export interface LoadedPolicy {
  readonly version: number
  readonly compiled: CompiledPolicy
  readonly toolAccess: ToolAccess
  readonly connections: Connected
  readonly settings: GovernanceSettings
  readonly limits: Limits
  /** Only the active ones. */
  readonly webhooks: readonly SubscribedWebhook[]
  /** Ids of the groups by their names. */
  readonly groups: ReadonlyMap<string, string>
  /** Ids of members of groups whose agents need a rule that allows each call. */
  readonly needRule: ReadonlySet<string>
  /** The setting, a group or a key of agents says so. */
  readonly agentsMayNeedRule: boolean
  readonly frozen: string | null
  /** With their texts: a later version does not compile a rule with the same text again. */
  readonly rules: CompiledRows<CompiledRule>
  readonly labelRules: CompiledRows<CompiledLabelRule>
  /** Estimated bytes in memory. */
  readonly bytes: number
}

export interface SubscribedWebhook {
  readonly id: string
  readonly events: readonly string[]
}

/** Rules that are unchanged since `former` are not compiled again. */
export type LoadPolicy = (former: LoadedPolicy | null) => Promise<LoadedPolicy>

/** How many times the memory of the saved rules or tool policies they take together with the compiled ones. */
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
    .select(
      sql<Record<string, string> | null>`
        (select json_object_agg(name, id) from groups where organization_id = ${organizationId})`.as(
        'groups',
      ),
    )
    .select(namedGroups(organizationId).as('limited'))
    .select(peopleWhoseAgentsNeedRule(organizationId).as('need_rule'))
    .select(someAgentsNeedRule(organizationId).as('some_need_rule'))
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

/** The caller holds the chain's lock or reads from one snapshot, so all rows belong to the given version. */
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
  // A saved rule that restricts calls can fail in its evaluation nevertheless. It then counts as matching.
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
    agentAccess: settings.default_agent_access,
  })
  const limits = effectiveLimits(organization.plan, organization.quota_overrides)
  const bytes =
    bytesOf(rules) +
    bytesOf(labelRules) +
    compiledFactor * heapBytes([toolPolicies, overrides]) +
    heapBytes([
      organization.live,
      organization.webhooks,
      organization.groups,
      organization.limited,
      organization.need_rule,
    ])
  const toolAccess = compileToolAccess(
    {
      policies: toolPolicies.map(({ tool_name, role, allowed, restrictions }) => ({
        toolName: tool_name,
        role: role === '' ? null : role,
        allowed,
        restrictions,
      })),
      overrides,
      groups: new Map(Object.entries(organization.limited ?? {})),
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
    groups: new Map(Object.entries(organization.groups ?? {})),
    needRule: new Set(organization.need_rule),
    agentsMayNeedRule: settings.default_agent_access === 'deny' || organization.some_need_rule,
    frozen,
    rules,
    labelRules,
    bytes,
  }
}

export interface SavedRow {
  readonly id: string
  readonly text: string
}

/** `compiled` is null if the rule is not active. */
interface CompiledRow<Compiled> {
  readonly text: string
  readonly compiled: Compiled | null
  /** Estimated bytes in memory. */
  readonly bytes: number
}

/** By id, in the order of the saved rules. */
export type CompiledRows<Compiled> = ReadonlyMap<string, CompiledRow<Compiled>>

/** A rule with the same id and text as in `former` is not compiled again: rules with many domains take long. */
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

/** Fills in the defaults. Throws `not_found`. */
export async function readGovernance(db: Db, organizationId: string): Promise<GovernanceSettings> {
  const row = await db
    .selectFrom('organizations')
    .select('settings')
    .where('id', '=', organizationId)
    .executeTakeFirst()
  if (row === undefined) throw notFound('organization', organizationId)
  return readSettings(row.settings)
}
