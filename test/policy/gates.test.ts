import { describe, expect, test } from '@jest/globals'
import { gateReasons, type GateSettings, type GatedWorkflow } from '../../src/policy/gates.ts'
import type { Category } from '../../src/policy/types.ts'

const off: GateSettings = {
  require_approval_for_external_comm: false,
  require_approval_for_public_writes: false,
  require_approval_for_permission_changes: false,
  category_flags: {},
}
const workflow = (categories: string[], ...tools: [string, Category[]][]): GatedWorkflow => ({
  categories,
  tools: tools.map(([name, its]) => ({ name, categories: its })),
})
const flagOf = (category: Category) => `require_approval_for_${category}` as const
const categories: Category[] = ['external_comm', 'public_writes', 'permission_changes']

describe('settings that hold whole runs', () => {
  test.each(categories.flatMap((flag) => categories.map((category) => [flag, category] as const)))(
    'the flag of %s and a tool of %s',
    (flag, category) => {
      const reasons = gateReasons({ ...off, [flagOf(flag)]: true }, workflow([], ['a_tool', [category]]))
      if (flag === category)
        expect(reasons).toEqual([expect.stringMatching(`^\`a_tool\` .* \\(\`${flagOf(flag)}\`\\)$`)])
      else expect(reasons).toEqual([])
    },
  )

  test.each<[string, Record<string, boolean>, GatedWorkflow, string[]]>([
    ['the workflow’s own category', { financial: true }, workflow(['financial']), ['the workflow is of category `financial` (`category_flags`)']], // prettier-ignore
    ['a tool’s category', { external_comm: true }, workflow([], ['mail', ['external_comm']]), ['`mail` is of category `external_comm` (`category_flags`)']], // prettier-ignore
    ['another category', { financial: true }, workflow(['pii'], ['mail', ['external_comm']]), []],
    ['false', { financial: false, external_comm: false }, workflow(['financial'], ['mail', ['external_comm']]), []], // prettier-ignore
    ['a name that every object has', {}, workflow(['constructor', 'tostring']), []],
  ])('a category flag and %s', (_, category_flags, about, reasons) => {
    expect(gateReasons({ ...off, category_flags }, about)).toEqual(reasons)
  })

  test('every reason is given once, in the order of the settings', () => {
    const all: GateSettings = {
      require_approval_for_external_comm: true,
      require_approval_for_public_writes: true,
      require_approval_for_permission_changes: true,
      category_flags: { pii: true, external_comm: true },
    }
    const about = workflow(['pii'], ['mail', ['external_comm']], ['mail', ['external_comm']], ['post', ['public_writes']]) // prettier-ignore
    expect(gateReasons(all, about)).toEqual([
      '`mail` is external communication (`require_approval_for_external_comm`)',
      '`post` writes where the public can read (`require_approval_for_public_writes`)',
      'the workflow is of category `pii` (`category_flags`)',
      '`mail` is of category `external_comm` (`category_flags`)',
    ])
  })
})
