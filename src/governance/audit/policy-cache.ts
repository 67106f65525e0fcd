import { sql, type Transaction } from 'kysely'
import { getTool } from '../../catalog/index.ts'
import type { Database } from '../../db/schema/index.ts'
import { compilePolicy, type CompiledPolicy } from '../../policy/decide.ts'
import type { LabelRuleBody, RuleBody } from '../../policy/rule.ts'
import { compileToolAccess, type ToolAccess } from '../../policy/tool-access.ts'
import { effectiveLimits, type Limits } from '../../contract/plan-limits.ts'
import { connectedOf, type Connected, type LiveConnection } from '../connected.ts'
import { heapBytes } from '../../shared/byte-cache.ts'
import { readSettings, type GovernanceSettings } from '../../policy/settings.ts'

/** An organization's rules, settings and limits, as of one policy version. */
export interface LoadedPolicy {
  readonly version: number
  readonly compiled: CompiledPolicy
  readonly toolAccess: ToolAccess
  /** What the organization and its members have connected (tools/standing.ts). */
  readonly connections: Connected
  readonly settings: GovernanceSettings
  readonly limits: Limits
  /** The reason of the freeze; null if the organization is not frozen. */
  readonly frozen: string | null
  /** Estimated bytes in memory. */
  readonly bytes: number
}

/** Memory of saved and compiled rules together, as a multiple of the saved ones. */
const compiledFactor = 3

/**
 * Reads rules, label rules, tool policies, overrides, connections and settings. The caller holds the chain lock, so they belong to
 * `version`.
 */
export async function loadPolicy(
  trx: Transaction<Database>,
  organizationId: string,
  version: number,
  frozen: string | null,
): Promise<LoadedPolicy> {
  const [organization, rules, labelRules, toolPolicies, overrides] = [
    await trx
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
        sql<LiveConnection[]>`
          (select coalesce(json_agg(json_build_array(owner_id, integration, status)), '[]') from connections
           where organization_id = ${organizationId} and status <> 'revoked')`.as('live'),
      )
      .where('id', '=', organizationId)
      .executeTakeFirstOrThrow(),
    await trx
      .selectFrom('rules')
      .select(['id', 'body'])
      .where('organization_id', '=', organizationId)
      .orderBy('position')
      .execute(),
    await trx
      .selectFrom('label_rules')
      .select(['id', 'body'])
      .where('organization_id', '=', organizationId)
      .orderBy('position')
      .execute(),
    await trx
      .selectFrom('tool_policies')
      .select(['tool_name', 'role', 'allowed', 'restrictions'])
      .where('organization_id', '=', organizationId)
      .execute(),
    await trx
      .selectFrom('role_policy_overrides')
      .select(['tool_name as toolName', 'role', 'allowed'])
      .where('organization_id', '=', organizationId)
      .execute(),
  ]
  const settings = readSettings(organization.settings)
  const compiled = compilePolicy({
    // Only validated bodies are saved. If `compilePolicy` still cannot evaluate a restricting rule, it treats the rule
    // as matching.
    rules: rules.map((rule) => ({ ...(rule.body as unknown as RuleBody), id: rule.id })),
    labelRules: labelRules.map((rule) => ({ ...(rule.body as unknown as LabelRuleBody), id: rule.id })),
    approvalsEnabled: settings.approvals_enabled,
    frozen,
  })
  const limits = effectiveLimits(organization.plan, organization.quota_overrides)
  const bytes =
    compiledFactor * heapBytes([rules, labelRules, toolPolicies, overrides]) + heapBytes(organization.live)
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
  return { version, compiled, toolAccess, connections, settings, limits, frozen, bytes }
}
