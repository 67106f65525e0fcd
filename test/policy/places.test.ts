import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { addedLabels, compilePolicy } from '../../src/policy/decide.ts'
import type { Verdict } from '../../src/policy/types.ts'
import { repository, site, type Twins, twins } from './place-twins.ts'
import { ask } from './rule-semantics.ts'

/** White space as Unicode and JavaScript know it, and characters that only look like it. */
const everyBlank = [
  ...[
    9, 10, 11, 12, 13, 32, 0x85, 0xa0, 0x1680, 0x180e, 0x2028, 0x2029, 0x202f, 0x205f, 0x2060, 0x2800, 0x3000,
  ],
  ...[0xfeff, 0x200b, ...Array.from({ length: 11 }, (_, at) => 0x2000 + at)],
].map((code) => String.fromCodePoint(code))

const all = Object.entries(twins).flatMap(([kind, list]) => list.map((each) => [kind, each] as const))

/** Whether a rule with one condition on the parameter matches the text. */
function matches(
  { tool, param }: Pick<Twins, 'tool' | 'param'>,
  operator: string,
  value: unknown,
  text: string,
  { verdict = 'deny', on = param }: { verdict?: Verdict; on?: string } = {},
): boolean {
  const rule = { verdict, params: [{ param: on, operator, value }] }
  return ask([rule], { tool, params: { [param]: text } }).matchedRules.length === 1
}

describe.each(all)('a rule on a %s', (_, each) => {
  const { place, executor } = each
  const read = executor(place)

  test.each(each.same)('holds for `%s`, as the tool reads it', (text) => {
    expect(executor(text)).toBe(read)
    for (const on of [each.param, '*']) {
      expect(matches(each, 'equals', place, text, { on })).toBe(true)
      expect(matches(each, 'in', ['no such place', place], text, { on })).toBe(true)
      expect(matches(each, 'contains', [place], text, { on })).toBe(true)
      expect(matches(each, 'startswith', place, text, { on })).toBe(true)
    }
    expect(matches(each, 'not_in', [place], text)).toBe(false)
    expect(matches(each, 'equals', text, place)).toBe(true)
    expect(matches(each, 'equals', place, text, { verdict: 'allow' })).toBe(true)
    expect(matches(each, 'not_in', [place], text, { verdict: 'allow' })).toBe(false)
  })

  test.each(each.others)('leaves `%s` alone', (text) => {
    expect(executor(text)).not.toBe(read)
    expect(executor(text)).not.toBeNull()
    expect(matches(each, 'equals', place, text)).toBe(false)
    expect(matches(each, 'in', ['no such place', place], text)).toBe(false)
    expect(matches(each, 'not_in', [place], text)).toBe(true)
    expect(matches(each, 'not_in', [place], text, { verdict: 'allow' })).toBe(true)
  })

  if (each.refused.length > 0)
    test.each(each.refused)('restricts `%s`, which the tool refuses', (text) => {
      expect(executor(text)).toBeNull()
      for (const operator of ['equals', 'startswith']) expect(matches(each, operator, place, text)).toBe(true)
      for (const operator of ['in', 'contains', 'not_in'])
        expect(matches(each, operator, [place], text)).toBe(true)
      expect(matches(each, 'equals', place, text, { verdict: 'allow' })).toBe(false)
      expect(matches(each, 'not_in', [place], text, { verdict: 'allow' })).toBe(false)
    })

  test('decides about a text built of any parts as the tool reads it', () => {
    const pieces = [...each.same, ...each.others, ...each.refused]
    const part = fc.constantFrom(...pieces, '', '/', '#', '?', ' ', '..', '%2e')
    const blanks = fc.string({ unit: fc.constantFrom(...everyBlank), maxLength: 3 })
    const any = fc.oneof(
      fc.constantFrom(...pieces),
      fc.tuple(blanks, fc.constantFrom(...pieces), blanks).map((parts) => parts.join('')),
      fc.tuple(part, part).map((parts) => parts.join('')),
      fc.constantFrom(...pieces).map((text) => text.toUpperCase()),
      fc.string({ maxLength: 10 }),
    )
    fc.assert(
      fc.property(any, (text) => {
        const reached = executor(text)
        // The tool refuses a link to another site than the connected one, which the policy does not know.
        if (reached === null && /^\s*https?:/i.test(text) && each.tool.startsWith('jira_')) return
        expect(matches(each, 'equals', place, text)).toBe(reached === null || reached === read)
        expect(matches(each, 'in', ['no such place', place], text)).toBe(reached === null || reached === read)
        expect(matches(each, 'not_in', [place], text)).toBe(reached === null || reached !== read)
        expect(matches(each, 'equals', place, text, { verdict: 'allow' })).toBe(reached === read)
        expect(matches(each, 'not_in', [place], text, { verdict: 'allow' })).toBe(
          reached !== null && reached !== read,
        )
      }),
      { numRuns: 300 },
    )
  })
})

describe('parts of a place', () => {
  test.each([
    ['github_comment', 'repo', 'startswith', 'acme/', 'https://github.com/Acme/x'],
    ['github_comment', 'repo', 'startswith', 'https://github.com/acme/', 'acme/x'],
    ['github_comment', 'repo', 'startswith', 'ACME/', 'www.github.com/acme/x/issues/1'],
    ['github_comment', 'repo', 'contains', 'secret', 'acme/Top-Secret'],
    ['slack_send_message', 'channel', 'startswith', '#ann', 'announcements'],
    ['slack_send_message', 'channel', 'startswith', 'ann', '#announcements'],
    ['slack_send_message', 'channel', 'equals', '#Announcements', 'announcements'],
    ['jira_comment', 'issue', 'startswith', 'OPS-', `${site}/browse/ops-7`],
    ['jira_comment', 'issue', 'startswith', `${site}/browse/ops-`, 'OPS-7'],
    ['jira_comment', 'issue', 'contains', 'ops', 'OPS-7'],
    ['trello_get_card', 'card', 'startswith', 'https://trello.com/c/AbC', 'AbCdEf12'],
    ['trello_get_card', 'card', 'startswith', 'https://www.trello.com/c/AbC', 'AbCdEf12'],
    ['docs_read', 'document', 'startswith', '1Ab', 'https://docs.google.com/document/d/1AbC_d'],
  ] as const)('%s: `%s` %s `%s` holds for `%s`', (tool, param, operator, value, text) => {
    expect(matches({ tool, param }, operator, value, text)).toBe(true)
  })

  test.each([
    ['github_comment', 'repo', 'startswith', 'acme/', 'https://github.com/acme2/x'],
    ['github_comment', 'repo', 'startswith', 'https://', 'acme/x'],
    ['github_comment', 'repo', 'contains', '://', 'acme/x'],
    ['jira_comment', 'issue', 'startswith', 'OPS-', `${site}/browse/DEV-7`],
    ['jira_comment', 'issue', 'contains', '://', 'OPS-7'],
    ['slack_send_message', 'channel', 'startswith', '#nnouncements', 'announcements'],
  ] as const)('%s: `%s` %s `%s` does not hold for `%s`', (tool, param, operator, value, text) => {
    expect(matches({ tool, param }, operator, value, text)).toBe(false)
  })

  test.each([
    'https://git.acme.example/acme/secret',
    'HTTPS://git:8443/Acme/Secret/issues/1',
    'git.acme.example/acme/secret',
    'http://github.com/acme/secret',
  ])('a rule with a link of another host, `%s`, may mean the repository there, if this restricts', (link) => {
    for (const verdict of ['deny', 'require_approval'] as const) {
      expect(matches(repository, 'equals', link, 'acme/secret', { verdict })).toBe(true)
      expect(matches(repository, 'in', [link], 'acme/secret', { verdict })).toBe(true)
      expect(matches(repository, 'contains', [link], 'acme/secret', { verdict })).toBe(true)
      expect(matches(repository, 'startswith', link, 'acme/secret', { verdict })).toBe(true)
      expect(matches(repository, 'not_in', [link], 'acme/secret', { verdict })).toBe(true)
    }
    expect(matches(repository, 'equals', link, 'acme/open')).toBe(false)
    expect(matches(repository, 'contains', [link], 'acme/open')).toBe(false)
    for (const operator of ['equals', 'startswith'])
      expect(matches(repository, operator, link, 'acme/secret', { verdict: 'allow' })).toBe(false)
    expect(matches(repository, 'not_in', [link], 'acme/secret', { verdict: 'allow' })).toBe(false)
    expect(matches(repository, 'not_in', [link], 'acme/open', { verdict: 'allow' })).toBe(true)
  })

  test('a rule on the owner in a link of another host holds for the repositories of this owner', () => {
    const owner = 'https://git.acme.example/acme/'
    expect(matches(repository, 'startswith', owner, 'Acme/x')).toBe(true)
    expect(matches(repository, 'startswith', owner, 'other/x')).toBe(false)
    expect(matches(repository, 'startswith', owner, 'Acme/x', { verdict: 'allow' })).toBe(false)
  })

  test.each(['https://git.acme.example/', 'https://git.acme.example/app', 'v1.2/app', 'https:///acme/app'])(
    'a rule on `%s`, which names no owner, leaves repositories alone',
    (text) => {
      expect(matches(repository, 'contains', [text], 'acme/app')).toBe(false)
      expect(matches(repository, 'startswith', text, 'acme/app')).toBe(false)
    },
  )

  test('a list of exceptions is read strictly', () => {
    const onChannel = { tool: 'slack_send_message', param: 'channel' } as const
    expect(matches(onChannel, 'not_in', ['#Announcements'], 'announcements')).toBe(true)
  })

  test('a rule without a text says nothing about places', () => {
    expect(matches(repository, 'equals', 5, 'no repository')).toBe(false)
    expect(matches(repository, 'contains', [true], 'no repository')).toBe(false)
    expect(matches(repository, 'not_in', [5], 'acme/x')).toBe(true)
  })
})

describe('where places count', () => {
  const secret = {
    verdict: 'deny',
    params: [{ param: '*', operator: 'equals', value: 'acme/secret' }],
  } as const
  const link = 'https://github.com/acme/secret'
  const verdictOf = (params: object, given: object) =>
    ask([secret], { params: { ...params }, ...given }).verdict

  test('`*` reads each parameter by its own kind', () => {
    const given = { tool: 'github_create_issue' }
    expect(verdictOf({ repo: link, title: 't' }, given)).toBe('deny')
    expect(verdictOf({ repo: 'acme/open', title: link }, given)).toBe('allow')
    expect(verdictOf({ repo: 'acme/open', title: 'acme/secret' }, given)).toBe('deny')
  })

  test('agents name tools and parameters freely, so their texts are compared as written', () => {
    expect(verdictOf({ repo: link }, { tool: 'github_comment', source: 'agents' })).toBe('allow')
    expect(verdictOf({ repo: link }, { tool: 'mcp__github__comment', source: 'agents' })).toBe('allow')
    const given = { tool: 'docs_read', source: 'agents' } as const
    const rule = { verdict: 'deny', params: [{ param: '*', operator: 'equals', value: '1AbC_d' }] }
    const document = 'https://docs.google.com/document/d/1AbC_d'
    expect(ask([rule], { ...given, params: { document } }).verdict).toBe('deny')
    expect(ask([rule], { ...given, params: { document: 'no file' } }).verdict).toBe('allow')
  })

  test('a label rule on a repository labels a file that a link names', () => {
    const labelRules = [
      {
        id: 'lrule_1',
        name: 'secrets',
        status: 'active' as const,
        tools: ['github_*'],
        params: [{ param: 'repo', operator: 'equals' as const, value: 'acme/secret' }],
        add_labels: ['confidential'],
      },
    ]
    const policy = compilePolicy({ rules: [], labelRules, approvalsEnabled: true })
    const added = (repo: string) =>
      addedLabels(policy, {
        source: 'workflows',
        tool: 'github_get_file',
        sideEffect: 'read',
        params: { repo, path: 'a.md' },
        labels: [],
      })
    expect(added('https://github.com/Acme/Secret/blob/main/a.md')).toEqual(['confidential'])
    expect(added('https://github.com/acme/open/../secret')).toEqual(['confidential'])
    expect(added('acme/open')).toEqual([])
  })
})
