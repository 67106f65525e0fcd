import { z } from 'zod'
import { limitChanges } from '../../contract/plan-limits.ts'
import { mostToolGlobs } from '../../policy/external-tools.ts'
import { completeSettings, type GovernanceSettings } from '../../policy/settings.ts'
import { restrictions } from '../../governance/rules/tool-policy-limits.ts'
import { textField } from '../../policy/text.ts'
import { facts } from '../../tools/facts.ts'
import { role } from './common.ts'

/** Maximum number of categories that one organization can flag. */
export const mostFlags = 100
/** Maximum number of external tools in the settings. Every change of the policy reads all of them. */
export const mostExternalTools = 1_000

/** The body of a change of settings. Every setting may be missing. */
export const governancePatch = z
  .strictObject(
    Object.fromEntries(
      Object.entries(completeSettings.shape).map(([name, field]) => [name, field.optional()]),
    ) as unknown as { [K in keyof GovernanceSettings]: z.ZodOptional<z.ZodType<GovernanceSettings[K]>> },
  )
  .superRefine(({ category_flags, external_tools }, context) => {
    const categories = Object.keys(category_flags ?? {})
    if (categories.length > mostFlags) {
      const message = `names ${categories.length} categories: at most ${mostFlags} are allowed`
      context.addIssue({ code: 'custom', path: ['category_flags'], message })
    }
    const tools = Object.keys(external_tools ?? {})
    if (tools.length > mostExternalTools) {
      const message = `names ${tools.length} tools: at most ${mostExternalTools.toLocaleString('en-US')} are kept`
      context.addIssue({ code: 'custom', path: ['external_tools'], message })
    }
    const globs = tools.filter((name) => name.includes('*')).length
    if (globs > mostToolGlobs) {
      const message = `names ${globs} globs: at most ${mostToolGlobs} are allowed`
      context.addIssue({ code: 'custom', path: ['external_tools'], message })
    }
    for (const name of tools) {
      const message = facts.names.settingIssue(name)
      if (message !== null) context.addIssue({ code: 'custom', path: ['external_tools', name], message })
    }
    for (const [name, told] of Object.entries(external_tools ?? {})) {
      if (told.side_effect !== undefined || told.output_labels !== undefined) continue
      const message = 'changes nothing: give `side_effect` or `output_labels`, or leave the tool out'
      context.addIssue({ code: 'custom', path: ['external_tools', name], message })
    }
  })

/** The body changes the same limits as `npm run set-plan`. */
export const quotaPatch = limitChanges

/** A policy is for exactly one tool, so a name with `*` or `?` is refused. */
const toolName = z
  .string()
  .min(1)
  .max(200)
  .refine((name) => !/[*?]/.test(name), 'name one tool: only rules take globs')
  .superRefine((name, context) => {
    const message = facts.names.issue(name)
    if (message !== null) context.addIssue({ code: 'custom', message })
  })

export const toolPolicyBody = z.strictObject({
  tool_name: toolName,
  allowed: z.boolean().nullable().default(null),
  restrictions: restrictions.default({}),
  role: role.optional(),
})
/** `role` selects the policy of one role. Without `role`, the policy of the whole organization changes. */
export const toolPolicyPatch = z.strictObject({
  allowed: z.boolean().nullable().optional(),
  restrictions: restrictions.optional(),
  role: role.optional(),
})

/**
 * A role of members, or any other name. Upper case is refused, because names that differ only in letter case would
 * mislead people.
 */
export const roleName = z
  .string()
  .regex(
    /^[a-z][a-z0-9_-]{0,63}$/,
    'a role has at most 64 lower-case letters, digits, `_` and `-`, and begins with a letter',
  )
export const roleOverrideBody = z.strictObject({ tool_name: toolName, role: roleName, allowed: z.boolean() })

/** The body of a request that freezes or unfreezes the organization. */
export const freezeBody = z.strictObject({ reason: textField(500, 1) })
