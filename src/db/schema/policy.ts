import type { ColumnType, Generated, GeneratedAlways } from 'kysely'

/** The file that an object comes from. */
export interface ManagedBy {
  /** Null: the caller named none. */
  readonly repository: string | null
  readonly path: string | null
  /** As of which the object is what it is. */
  readonly commit: string | null
  readonly applied_at: string
}

/** Null: people change the object. */
export type ManagedColumn = ColumnType<ManagedBy | null, never, string | null>

/** The tables `rules` and `label_rules` have this shape. `body` is a RuleBody or a LabelRuleBody. */
export interface RulesTable {
  id: string
  position: GeneratedAlways<number>
  organization_id: string
  name: string
  body: ColumnType<Record<string, unknown>, string, string>
  created_by: string
  created_at: Generated<Date>
  updated_at: Generated<Date>
  managed_by: ManagedColumn
}

/** What a change of a rule, a label rule or a tool policy left. */
export interface PolicyVersionsTable {
  organization_id: string
  kind: VersionedKind
  /** The id of a rule. For a tool policy `ROLE/TOOL`, without a role `/TOOL`. */
  object_id: string
  version: number
  change: 'created' | 'updated' | 'deleted'
  /** Null after a deletion. */
  body: ColumnType<Record<string, unknown> | null, string | null, never>
  restored_from: number | null
  created_by: string
  /** The second person whom the change needed. */
  approved_by: string | null
  created_at: Date
}

export type VersionedKind = 'rule' | 'label_rule' | 'tool_policy'

export interface RolePolicyOverridesTable {
  organization_id: string
  tool_name: string
  /** Another name is allowed too, but the row then applies to no member. */
  role: string
  allowed: boolean
  created_by: string
  created_at: Generated<Date>
  managed_by: ManagedColumn
}

export interface PolicyTables {
  rules: RulesTable
  label_rules: RulesTable
  role_policy_overrides: RolePolicyOverridesTable
  policy_versions: PolicyVersionsTable
}
