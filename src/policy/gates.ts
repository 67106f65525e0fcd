import type { Category } from './types.ts'

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
