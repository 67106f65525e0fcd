import type { Category } from './types.ts'

/**
 * Settings that make a whole run wait for an approval. Whether a run must wait depends on the categories of the
 * workflow.
 */
export interface GateSettings {
  readonly require_approval_for_external_comm: boolean
  readonly require_approval_for_public_writes: boolean
  readonly require_approval_for_permission_changes: boolean
  /**
   * For each category, whether a run of a workflow with this category needs an approval. An absent category counts as
   * `false`.
   */
  readonly category_flags: Readonly<Record<string, boolean>>
}

/** The categories of a workflow: those that its author named, and those that its tools declare. */
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

/**
 * Returns the reasons why a run of this workflow needs an approval, one line for each reason. Returns an empty list if
 * the run needs no approval. Every step counts, even a step that would be skipped (docs/decisions/0070).
 */
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
