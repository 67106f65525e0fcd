import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { fileAt, issueAt } from '../../src/activities/tools/github/place.ts'
import { ToolError } from '../../src/activities/tools/executor.ts'
import { withLinked } from '../../src/policy/linked-params.ts'
import { Hole } from '../../src/policy/values.ts'
import { ask } from './rule-semantics.ts'

/* A link in `repo` can name the issue or the file too. Rules see what the tool reads. */

const from = <T>(...values: T[]) => fc.constantFrom(...values)
const link = fc
  .tuple(
    from('https://github.com/', 'github.com/', 'HTTPS://www.GitHub.com/', 'https://git.acme.example/', ''),
    from('acme/app', 'Acme/App.git'),
    from('', '/issues/', '/pull/', '/blob/', '/raw/', '/tree/', '/Blob/', '//blob/', '/%62lob/'),
    from('', '7', '07', '0', '12345678901', 'main', 'a%2Fb', '%zz'),
    from('', '/', '/a/b.ts', '/a%20b', '/%2e%2e/x', '/%', '/a//b', '/7'),
    from('', '?x=/blob/main/y', '#/issues/8'),
  )
  .map((parts) => parts.join(''))
const pages = from('https://github.com', 'https://git.acme.example')

/** null if the tool refuses the call. */
function read<T>(tool: () => T): T | null {
  try {
    return tool()
  } catch (error) {
    if (error instanceof ToolError) return null
    throw error
  }
}

describe('the policy reads a link as the tool does', () => {
  test('that names a file', () => {
    let seen = 0
    const given = fc.record({ path: from('x', null), ref: from('main', null) }, { requiredKeys: [] })
    fc.assert(
      fc.property(link, pages, given, (repo, host, more) => {
        const { path = null, ref = null } = more
        const file = read(() => fileAt({ repo, path: path ?? undefined, ref: ref ?? undefined }, host))
        if (file === null) return
        if (path === null) seen += 1
        const params = withLinked('github_get_file', 'workflows', { repo, ...more })
        expect(params).toMatchObject({ repo, path: file.path })
        expect((params as { ref?: unknown }).ref ?? undefined).toBe(file.ref)
      }),
      { numRuns: 20_000 },
    )
    expect(seen).toBeGreaterThan(100)
  })

  test('that names an issue', () => {
    let seen = 0
    fc.assert(
      fc.property(link, pages, from(undefined, 7), (repo, host, number) => {
        const issue = read(() => issueAt({ repo, number }, host))
        if (issue === null) return
        if (number === undefined) seen += 1
        const given = number === undefined ? { repo } : { repo, number }
        const expected = { repo, number: issue.issue_number }
        expect(withLinked('github_comment', 'workflows', given)).toEqual(expected)
        expect(withLinked('github_get_issue', 'workflows', given)).toEqual(expected)
      }),
      { numRuns: 20_000 },
    )
    expect(seen).toBeGreaterThan(50)
  })
})

describe('a rule', () => {
  const file = 'https://github.com/acme/app/blob/main/secrets/key.pem'
  const verdictOf = (param: string, operator: string, value: unknown, params: object, more: object = {}) =>
    ask([{ verdict: 'deny', params: [{ param, operator, value }] }], {
      tool: 'github_get_file',
      sideEffect: 'read',
      params: { ...params },
      ...more,
    }).verdict

  test('on the path, the branch or any parameter holds for a link that names them', () => {
    expect(verdictOf('path', 'startswith', 'secrets/', { repo: file })).toBe('deny')
    expect(verdictOf('path', 'startswith', 'secrets/', { repo: file, path: null })).toBe('deny')
    expect(verdictOf('ref', 'equals', 'main', { repo: file })).toBe('deny')
    expect(verdictOf('*', 'contains', 'key.pem', { repo: file.replace('key', '%6bey') })).toBe('deny')
    expect(verdictOf('path', 'startswith', 'secrets/', { repo: file, path: 'README.md' })).toBe('allow')
    expect(verdictOf('path', 'exists', false, { repo: file })).toBe('allow')
    expect(verdictOf('path', 'exists', false, { repo: 'acme/app' })).toBe('deny')
  })

  test('on the number holds for a link to the issue', () => {
    const comment = { tool: 'github_comment' }
    const issue = { repo: 'https://github.com/acme/app/issues/7' }
    expect(verdictOf('number', 'equals', 7, issue, comment)).toBe('deny')
    expect(verdictOf('number', 'equals', 8, issue, comment)).toBe('allow')
    expect(verdictOf('number', 'equals', 7, issue, { ...comment, source: 'agents' })).toBe('allow')
    expect(verdictOf('number', 'equals', 7, issue, { tool: 'github_list_issues' })).toBe('allow')
  })
})

test('an unknown `repo` leaves open what it names, unless it is certainly no link', () => {
  const linked = (prefix: string | null) =>
    withLinked('github_comment', 'workflows', { repo: new Hole(prefix, { from: ['input.a'] }), body: 'b' })
  for (const prefix of [null, '', 'acme', 'https://github.com/acme/', 'git.acme.example/'])
    expect(linked(prefix)).toMatchObject({ number: { prefix: null, from: ['input.a'] } })
  expect(linked('acme/')).not.toHaveProperty('number')
})
