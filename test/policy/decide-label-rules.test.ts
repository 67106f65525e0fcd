import { describe, expect, test } from '@jest/globals'
import { type Call, addedLabels, compilePolicy } from '../../src/policy/decide.ts'
import type { StoredLabelRule } from '../../src/policy/rule.ts'

describe('label rules', () => {
  const add = (label: string, more: Partial<StoredLabelRule> = {}): StoredLabelRule => ({
    id: `lrule_${label}`,
    name: label,
    status: 'active',
    add_labels: [label],
    ...more,
  })
  const sheets: Call = {
    source: 'workflows',
    tool: 'sheets_read',
    sideEffect: 'read',
    params: { sheet: 'SHEET1' },
    labels: ['confidential'],
  }
  const added = (labelRules: StoredLabelRule[], asked = sheets) =>
    addedLabels(compilePolicy({ rules: [], labelRules, approvalsEnabled: true }), asked)

  test('reading a named sheet adds its label, by id or by link', () => {
    const named = add('secret', {
      tools: ['sheets_*'],
      params: [
        { param: 'sheet', operator: 'equals', value: 'https://docs.google.com/spreadsheets/d/SHEET1/edit' },
      ],
    })
    expect(added([named])).toEqual(['secret'])
    expect(added([named], { ...sheets, params: { sheet: 'SHEET2' } })).toEqual([])
    expect(added([named], { ...sheets, tool: 'docs_read' })).toEqual([])
  })

  test('only active rules add labels, sorted and once each', () => {
    const rules = [add('z'), add('a', { add_labels: ['z', 'a'] }), add('s', { status: 'shadow' })]
    expect(added([...rules, add('i', { status: 'inactive' })])).toEqual(['a', 'z'])
  })

  test('a rule that could not be compared completely adds its labels, and so do the rules after it', () => {
    const is = (value: string) => ({ params: [{ param: '*', operator: 'equals' as const, value }] })
    const rules = [add('first', is('none')), add('second', is('nothing'))]
    const params = { list: Array.from({ length: 90_000 }, () => 'x') }
    expect(added(rules, { ...sheets, params: { list: ['x'] } })).toEqual([])
    expect(added(rules, { ...sheets, params })).toEqual(['second'])
    expect(added(rules, { ...sheets, params: { list: [...params.list, ...params.list] } })).toEqual([
      'first',
      'second',
    ])
  })

  test('a list adds the label if any element matches', () => {
    const rule = add('secret', { params: [{ param: 'sheet', operator: 'equals', value: 'SHEET1' }] })
    expect(added([rule], { ...sheets, params: { sheet: ['SHEET0', 'SHEET1'] } })).toEqual(['secret'])
  })
})
