import { sql, type Transaction } from 'kysely'
import type { Database } from '../db/schema/index.ts'
import { compilePolicy, type CompiledPolicy } from '../policy/decide.ts'
import type { LabelRuleBody, RuleBody } from '../policy/rule.ts'
import { compileToolAccess, type ToolAccess } from '../policy/tool-access.ts'
import { effectiveLimits, type Limits } from './quotas/limits.ts'
import { heapBytes } from './recent.ts'
import { readSettings, type GovernanceSettings } from './settings.ts'

/** What decides in an organization, as of one policy version. */
export interface LoadedPolicy {
  readonly version: number
  readonly compiled: CompiledPolicy
  readonly toolAccess: ToolAccess
  /** The organization's tools of the installation (connections.ts). */
  readonly connections: ReadonlySet<string>
  readonly settings: GovernanceSettings
  readonly limits: Limits
  /** The reason the organization is frozen, else null. */
  readonly frozen: string | null
  /** What it takes in memory, about. */
  readonly bytes: number
}

/** Rules compiled and as they are saved, against the saved ones alone. */
const compiledFactor = 3

/** Reads rules, label rules, tool policies, connections and settings. Under the chain lock, so that they are those of `version`. */
export async function loadPolicy(
  trx: Transaction<Database>,
  organizationId: string,
  version: number,
  frozen: string | null,
): Promise<LoadedPolicy> {
  const [organization, rules, labelRules, toolPolicies] = [
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
  ]
  const settings = readSettings(organization.settings)
  const compiled = compilePolicy({
    // Only validated bodies are ever saved; compilePolicy treats what it cannot evaluate as matching if it restricts.
    rules: rules.map((rule) => ({ ...(rule.body as unknown as RuleBody), id: rule.id })),
    labelRules: labelRules.map((rule) => ({ ...(rule.body as unknown as LabelRuleBody), id: rule.id })),
    approvalsEnabled: settings.approvals_enabled,
    frozen,
  })
  const limits = effectiveLimits(organization.plan, organization.quota_overrides)
  const bytes = compiledFactor * heapBytes([rules, labelRules, toolPolicies])
  const toolAccess = compileToolAccess(
    toolPolicies.map(({ tool_name, role, allowed, restrictions }) => ({
      toolName: tool_name,
      role: role === '' ? null : role,
      allowed,
      restrictions,
    })),
    settings.default_tool_access,
  )
  const connections = new Set(organization.connections)
  return { version, compiled, toolAccess, connections, settings, limits, frozen, bytes }
}
