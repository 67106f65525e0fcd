import { z } from 'zod'
import { labelSlug as label } from '../policy/text.ts'
import { wholeNameIssue } from '../policy/tool-names.ts'

/** Governance settings with their defaults (contract section 8). Stored are only the keys that were set. */
export const governanceSettings = z.strictObject({
  require_approval_for_external_comm: z.boolean().default(false),
  require_approval_for_public_writes: z.boolean().default(false),
  require_approval_for_permission_changes: z.boolean().default(false),
  allow_self_approval: z.boolean().default(false),
  approval_threshold: z.int().min(1).max(20).default(1),
  category_flags: z.record(z.string().regex(/^[a-z0-9][a-z0-9_-]{0,63}$/), z.boolean()).default({}),
  approvals_enabled: z.boolean().default(false),
  approval_required_from: z.enum(['low', 'medium', 'high', 'critical']).nullable().default(null),
  slack_approval_notifications: z.boolean().default(true),
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
  require_mfa: z.boolean().default(false),
  keep_decision_params: z.boolean().default(true),
})
/** Most categories that one organization flags. */
const mostFlags = 100

export type GovernanceSettings = z.infer<typeof governanceSettings>

/** Body of PATCH: any of the settings, nothing else. */
export const governancePatch = z
  .strictObject(
    Object.fromEntries(
      Object.entries(governanceSettings.shape).map(([name, field]) => [name, field.unwrap().optional()]),
    ) as unknown as { [K in keyof GovernanceSettings]: z.ZodOptional<z.ZodType<GovernanceSettings[K]>> },
  )
  .superRefine(({ category_flags, external_tools }, context) => {
    const categories = Object.keys(category_flags ?? {})
    if (categories.length > mostFlags) {
      const message = `names ${categories.length} categories: at most ${mostFlags} are kept`
      context.addIssue({ code: 'custom', path: ['category_flags'], message })
    }
    // A workflow's categories are slugs: another word would hold nothing without anybody noticing.
    for (const name of categories.filter((each) => !label.safeParse(each).success)) {
      const message = `\`${name}\` is no category: write a lower-case slug such as \`financial\``
      context.addIssue({ code: 'custom', path: ['category_flags', name], message })
    }
    for (const name of Object.keys(external_tools ?? {})) {
      const message = wholeNameIssue(name)
      if (message !== null) context.addIssue({ code: 'custom', path: ['external_tools', name], message })
    }
  })
export type GovernancePatch = z.infer<typeof governancePatch>

/** All settings of an organization, defaults filled in. Throws on stored values of another form: fail closed. */
export function readSettings(stored: unknown): GovernanceSettings {
  return governanceSettings.parse(stored)
}
