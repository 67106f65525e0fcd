import { z } from 'zod'
import { categorySlug, labelSlug as label } from './text.ts'
import { agentAccess, type Category } from './types.ts'

/** The database stores only the keys that were set. */
export const governanceSettings = z.strictObject({
  require_approval_for_external_comm: z.boolean().default(false),
  require_approval_for_public_writes: z.boolean().default(false),
  require_approval_for_permission_changes: z.boolean().default(false),
  allow_self_approval: z.boolean().default(false),
  approval_threshold: z.int().min(1).max(20).default(1),
  category_flags: z.record(categorySlug, z.boolean()).default({}),
  approvals_enabled: z.boolean().default(false),
  approval_required_from: z
    .enum(
      ['low', 'medium', 'high', 'critical'],
      'must be `low`, `medium`, `high`, `critical` or null for never',
    )
    .nullable()
    .default(null),
  slack_approval_notifications: z.boolean().default(true),
  mail_approval_notifications: z.boolean().default(true),
  external_tools: z
    .record(
      z.string().min(1).max(200),
      z.strictObject({
        side_effect: z.enum(['read', 'write', 'egress']).optional(),
        output_labels: z.array(label).max(50).optional(),
      }),
    )
    .default({}),
  default_tool_access: z.enum(['allow', 'deny']).default('allow'),
  /** With `deny`, a call of an agent passes only where a rule allows it (docs/agents.md). */
  default_agent_access: z.enum(agentAccess).default('allow'),
  require_mfa: z.boolean().default(false),
  require_sso: z.boolean().default(false),
  /** Which inputs of agents' calls stay, sealed: for backtests and for those who decide. `true` and `false` are old names. */
  keep_decision_params: z
    .preprocess(
      (value) => (value === true ? 'all' : value === false ? 'none' : value),
      z.enum(['all', 'held', 'none']),
    )
    .default('all'),
  /** Who sees values of runs besides those who take part in them (docs/security.md). */
  run_values: z.enum(['participants', 'members', 'everyone']).default('participants'),
  /** Values in memory with one of these labels are read by who wrote them, admins and owners, and by runs. */
  restricted_labels: z.array(label).max(50).default(['confidential', 'pii']),
  /** Whether answers to questions of runs come without the label `untrusted`. */
  trust_answers: z.boolean().default(false),
  /** Whether a change after which some call would be decided less strictly needs a second person (docs/changes.md). */
  loosening: z.enum(['free', 'second_person']).default('free'),
})
export type GovernanceSettings = z.infer<typeof governanceSettings>

/** Unlike in `governanceSettings`, every setting must have a value. */
export const completeSettings = z.strictObject(
  Object.fromEntries(
    Object.entries(governanceSettings.shape).map(([name, field]) => [name, field.unwrap()]),
  ) as unknown as { [K in keyof GovernanceSettings]: z.ZodType<GovernanceSettings[K]> },
)

/** As it was asked for. A setting that is gone or has other values now is refused. */
export const governanceChanges = completeSettings.partial()

export type GovernancePatch = {
  readonly [Name in keyof GovernanceSettings]?: GovernanceSettings[Name] | undefined
}

/** Throws if a stored value does not fit the schema, so that damaged settings permit nothing. */
export function readSettings(stored: unknown): GovernanceSettings {
  return governanceSettings.parse(stored)
}

/** Settings that make a whole run wait for an approval, by the categories of its workflow. */
export interface GateSettings {
  readonly require_approval_for_external_comm: boolean
  readonly require_approval_for_public_writes: boolean
  readonly require_approval_for_permission_changes: boolean
  /** An absent category counts as `false`. */
  readonly category_flags: Readonly<Record<string, boolean>>
}

/** Categories that the author named, and those that the tools declare. */
export interface GatedWorkflow {
  readonly categories: readonly string[]
  readonly tools: readonly { readonly name: string; readonly categories: readonly Category[] }[]
}

const flags = [
  ['external_comm', 'require_approval_for_external_comm', 'is external communication'],
  ['public_writes', 'require_approval_for_public_writes', 'writes where the public can read'],
  ['permission_changes', 'require_approval_for_permission_changes', 'changes permissions'],
] as const satisfies readonly (readonly [Category, keyof GateSettings, string])[]

export const everyCategory: readonly Category[] = flags.map(([category]) => category)

/** One line a reason. Every step counts, even one that would be skipped (docs/decisions/0070). */
export function gateReasons(settings: GateSettings, workflow: GatedWorkflow): string[] {
  const reasons = new Set<string>()
  for (const [category, setting, words] of flags) {
    if (!settings[setting]) continue
    for (const tool of workflow.tools) {
      if (tool.categories.includes(category)) reasons.add(`\`${tool.name}\` ${words} (\`${setting}\`)`)
    }
  }
  for (const category of workflow.categories) {
    if (isFlagged(settings, category))
      reasons.add(`the workflow is of category \`${category}\` (\`category_flags\`)`)
  }
  for (const tool of workflow.tools) {
    for (const category of tool.categories) {
      if (isFlagged(settings, category))
        reasons.add(`\`${tool.name}\` is of category \`${category}\` (\`category_flags\`)`)
    }
  }
  return [...reasons]
}

const isFlagged = ({ category_flags: all }: GateSettings, category: string): boolean =>
  Object.hasOwn(all, category) && all[category] === true
