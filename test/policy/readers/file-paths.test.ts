import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { compilePolicy, decide } from '../../../src/policy/decide.ts'
import { plainPath, resolvedIn, withPlainPaths } from '../../../src/policy/readers/file-paths.ts'
import type { StoredRule } from '../../../src/policy/rule.ts'
import { rank, type Json, type JsonObject } from '../../../src/policy/types.ts'
import { conditionOn } from '../arbitraries.ts'

describe('the plain form', () => {
  test.each<[string, string | null]>([
    ['/srv/www/index.html', '/srv/www/index.html'],
    ['/srv//www/index.html', '/srv/www/index.html'],
    ['//srv/www/index.html', '/srv/www/index.html'],
    ['/srv/./www/./index.html', '/srv/www/index.html'],
    ['/srv/x/../www/index.html', '/srv/www/index.html'],
    ['/a/b/../../srv/www/index.html', '/srv/www/index.html'],
    ['/srv/www/index.html/.', '/srv/www/index.html'],
    ['/srv/www/index.html/', '/srv/www/index.html'],
    ['/srv/www/x/..', '/srv/www'],
    [' /srv/www/index.html\n', '/srv/www/index.html'],
    ['/srv/cafe\u0301', '/srv/caf\u00e9'],
    ['./hr/pay.csv', 'hr/pay.csv'],
    ['notes/../hr/pay.csv', 'hr/pay.csv'],
    ['../../x', '../../x'],
    ['a/../../x', '../x'],
    ['a/..', '.'],
    ['.', '.'],
    ['', ''],
    ['/', '/'],
    ['/srv/...', '/srv/...'],
    ['/srv/..www/.git/x.', '/srv/..www/.git/x.'],
    ['/srv/\u{1f600}', '/srv/\u{1f600}'],
    ['/..', null],
    ['/../etc/passwd', null],
    ['/srv/../../etc', null],
    ['/srv/\u0000', null],
    ['a\u0000', null],
  ])('%j: %j', (path, plain) => {
    expect(plainPath(path)).toBe(plain)
    const seen = plain === null ? null : { file_path: plain === path ? path : { 1: path, 2: plain } }
    expect(withPlainPaths('Write', { file_path: path })).toEqual(seen)
  })
})

describe('the paths that rules see', () => {
  const [given, plain] = ['/srv//www/', '/srv/www']
  test.each([
    'Read:file_path Write:file_path Edit:file_path MultiEdit:file_path NotebookEdit:notebook_path',
    'Glob:path Grep:path LS:path read_file:absolute_path list_directory:dir_path view:path create_file:filePath',
  ])('%s', (pairs) => {
    for (const [tool = '', name = ''] of pairs.split(' ').map((pair) => pair.split(':')))
      expect([tool, withPlainPaths(tool, { [name]: given, other: given })]).toEqual([
        tool,
        { [name]: { 1: given, 2: plain }, other: given },
      ])
  })

  test('calls without such a path are not copied', () => {
    for (const [tool, params] of [
      ['Write', { file_path: '/srv/www/index.html', content: '/a//b' }],
      ['Write', { file_path: ['/a', { 1: '/b', 2: '/c' }, null, 3] }],
      ['Write', {}],
      ['Bash', { command: 'cat /srv//www', path: '/srv//www' }],
      ['mcp__fs__write_file', { path: '/srv//www' }],
    ] as [string, JsonObject][])
      expect(withPlainPaths(tool, params)).toBe(params)
  })

  test.each<[string, Json, Json | null]>([
    ['the hook’s form of a relative path', { 1: 'www/x', 2: '/srv/www/x' }, { 1: 'www/x', 2: '/srv/www/x' }],
    ['one of two is not plain', { 1: './x', 2: '/w/x' }, { 1: './x', 2: '/w/x', 3: 'x' }],
    ['both are not plain', { 1: './x', 2: '/w//x' }, { 1: './x', 2: '/w//x', 3: 'x', 4: '/w/x' }],
    ['has our parameter names', { 2: './x', 1: '/a', 3: '/b' }, { 2: './x', 1: '/a', 3: '/b', 4: 'x' }],
    ['one of two leads upwards', { 1: 'x', 2: '/../x' }, null],
    ['several files', ['/a', '/b//c'], ['/a', { 1: '/b//c', 2: '/b/c' }]],
    ['several, one relative', ['/a', { 1: './b', 2: '/b' }], ['/a', { 1: './b', 2: '/b', 3: 'b' }]],
    ['several, one climbs', ['/a', '/..'], null],
  ])('%s', (_name, value, seen) => {
    expect(withPlainPaths('Edit', { file_path: value })).toEqual(seen === null ? null : { file_path: seen })
  })
})

describe('a relative path in a folder', () => {
  test.each<[unknown, string, Json]>([
    ['/srv', 'www/x', { 1: 'www/x', 2: '/srv/www/x' }],
    ['/srv/', './www/../x', { 1: './www/../x', 2: '/srv/x' }],
    ['/srv/a', '../www/x', { 1: '../www/x', 2: '/srv/www/x' }],
    ['/srv', ' www/x', { 1: ' www/x', 2: '/srv/www/x' }],
    ['/srv', '../../x', { 1: '../../x', 2: '/srv/../../x' }],
    ['/srv', '/www/x', '/www/x'],
    ['/srv', '~/x', '~/x'],
    ['/srv', 'C:\\x', 'C:\\x'],
    ['/srv', '', ''],
    ['C:\\w', 'x', 'x'],
    [undefined, 'x', 'x'],
    [3, 'x', 'x'],
  ])('%j, %j', (folder, path, seen) => {
    expect(resolvedIn(folder, 'Read', { file_path: path })).toEqual({ file_path: seen })
    expect(resolvedIn(folder, 'Bash', { file_path: path })).toEqual({ file_path: path })
  })
})

describe('an additional value never loosens the verdict', () => {
  const part = fc.constantFrom('srv', 'www', 'etc', '.', '..', '', 'a@acme.com', 'evil.net', 'https:')
  const path = fc
    .tuple(fc.constantFrom('', '/', ' /'), fc.array(part, { maxLength: 4 }))
    .map(([start, parts]) => start + parts.join('/'))
  const given = fc.oneof<fc.Arbitrary<Json>[]>(
    path,
    fc.array(path, { maxLength: 3 }),
    fc.record({ 1: path, 2: path }) as fc.Arbitrary<Json>,
  )
  const param = fc.constantFrom('file_path', '*', 'file_path.0', 'file_path.1', 'file_path.*')
  const value = fc.oneof(path, fc.constantFrom('/srv/', '/srv/www', '/www', 'srv', 'srv/www', '/'))
  const condition = conditionOn(param, value)
  const ask = (rules: readonly StoredRule[], params: JsonObject) =>
    decide(compilePolicy({ rules, labelRules: [], approvalsEnabled: true }), {
      source: 'agents',
      tool: 'Write',
      sideEffect: 'write',
      params,
      labels: ['internal'],
    })
  const ruleOf = (verdict: StoredRule['verdict'], params: StoredRule['params']): StoredRule => ({
    id: 'r',
    name: 'r',
    status: 'active',
    verdict,
    params,
  })

  test('the verdict is as strict as for the path as given, and as for its plain form', () => {
    let caught = 0
    const rules = fc.array(
      fc
        .tuple(
          fc.constantFrom('allow', 'require_approval', 'deny'),
          fc.array(condition, { minLength: 1, maxLength: 2 }),
        )
        .map(([verdict, params]) => ruleOf(verdict, params)),
      { minLength: 1, maxLength: 3 },
    )
    fc.assert(
      fc.property(rules, given, (each, file_path) => {
        const seen = withPlainPaths('Write', { file_path })
        if (seen === null || seen['file_path'] === file_path) return
        // A text has no fields that a rule could name.
        const isOfText = each.every(({ params }) => params?.every(({ param }) => !param.includes('.')))
        if (typeof file_path === 'string' && !isOfText) return
        const both = ask(each, seen)
        const alone = ask(each, { file_path })
        expect(rank[both.verdict]).toBeGreaterThanOrEqual(rank[alone.verdict])
        caught += both.verdict === alone.verdict ? 0 : 1
        if (typeof file_path !== 'string') return
        const plain = ask(each, { file_path: plainPath(file_path) })
        expect(rank[both.verdict]).toBeGreaterThanOrEqual(rank[plain.verdict])
      }),
      { numRuns: 3_000 },
    )
    expect(caught).toBeGreaterThan(0)
  })

  test('a rule that allows must match both forms', () => {
    fc.assert(
      fc.property(conditionOn(fc.constant('file_path'), value), path, (each, file_path) => {
        const seen = withPlainPaths('Write', { file_path })
        if (seen === null) return
        const matches = (params: JsonObject) =>
          ask([ruleOf('allow', [each])], params).matchedRules.length === 1
        if (!matches(seen)) return
        expect(matches({ file_path })).toBe(true)
        expect(matches({ file_path: plainPath(file_path) })).toBe(true)
      }),
      { numRuns: 3_000 },
    )
  })
})
