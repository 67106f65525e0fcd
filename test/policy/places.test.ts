import fc from 'fast-check'
import { describe, expect, test } from '@jest/globals'
import { ToolError } from '../../src/tools/kit/executor.ts'
import { fileAt, issueAt } from '../../src/tools/github/place.ts'
import { addedLabels, decide } from '../../src/policy/decide.ts'
import { compilePolicy } from '../support/compile.ts'
import { withLinked } from '../../src/policy/tool-facts.ts'
import { facts, type ToolName } from '../../src/tools/index.ts'
import { plainPath, resolvedIn, withPlainPaths } from '../../src/policy/readers/file-paths.ts'
import { comparable, couldBecomeGoogleLink, googleFileId } from '../../src/policy/readers/google-links.ts'
import type { StoredRule } from '../../src/policy/rule.ts'
import { rank, type Verdict, type Json, type JsonObject } from '../../src/policy/types.ts'
import { Hole, type Partial } from '../../src/policy/values.ts'
import { conditionOn } from './arbitraries.ts'
import { ask } from './ask.ts'
import { repository, site, twins, type Twins } from './place-twins.ts'

const linkedOf = (tool: ToolName, params: Partial) => withLinked(facts.reading(tool, 'workflows'), params)

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
      for (const operator of ['equals', 'startswith'])
        expect(matches(repository, operator, link, 'acme/secret', { verdict })).toBe(true)
      for (const operator of ['in', 'contains', 'not_in'])
        expect(matches(repository, operator, [link], 'acme/secret', { verdict })).toBe(true)
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
  const secret = { verdict: 'deny', params: [{ param: '*', operator: 'equals', value: 'acme/secret' }] }
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
    const params: StoredRule['params'] = [{ param: 'repo', operator: 'equals', value: 'acme/secret' }]
    const rule = { id: 'lrule_1', name: 'secrets', tools: ['github_*'], params, add_labels: ['confidential'] }
    const labelRules = [{ ...rule, status: 'active' as const }]
    const policy = compilePolicy({ rules: [], labelRules, approvalsEnabled: true })
    const call = { source: 'workflows', tool: 'github_get_file', sideEffect: 'read', labels: [] } as const
    const added = (repo: string) => addedLabels(policy, { ...call, params: { repo, path: 'a.md' } })
    expect(added('https://github.com/Acme/Secret/blob/main/a.md')).toEqual(['confidential'])
    expect(added('https://github.com/acme/open/../secret')).toEqual(['confidential'])
    expect(added('acme/open')).toEqual([])
  })
})

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
        const params = linkedOf('github_get_file', { repo, ...more })
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
        expect(linkedOf('github_comment', given)).toEqual(expected)
        expect(linkedOf('github_get_issue', given)).toEqual(expected)
      }),
      { numRuns: 20_000 },
    )
    expect(seen).toBeGreaterThan(50)
  })
})

describe('a rule on what a link names', () => {
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
    linkedOf('github_comment', { repo: new Hole(prefix, { from: ['input.a'] }), body: 'b' })
  for (const prefix of [null, '', 'acme', 'https://github.com/acme/', 'git.acme.example/'])
    expect(linked(prefix)).toMatchObject({ number: { prefix: null, from: ['input.a'] } })
  expect(linked('acme/')).not.toHaveProperty('number')
})

const id = '1AbC_d-EfG'

describe('Google links', () => {
  test.each([
    `https://docs.google.com/document/d/${id}/edit#heading=h.1`,
    `https://docs.google.com/spreadsheets/d/${id}`,
    `https://docs.google.com/spreadsheets/u/1/d/${id}/edit?gid=0#gid=0`,
    `https://docs.google.com/a/acme.com/presentation/d/${id}/view`,
    `https://drive.google.com/file/d/${id}/view?usp=sharing`,
    `https://drive.google.com/open?id=${id}`,
    `https://drive.google.com/uc?export=download&id=${id}`,
    `https://drive.google.com/drive/folders/${id}`,
    `http://DOCS.google.com/document/d/${id}`,
    `docs.google.com/document/d/${id}`,
    `//docs.google.com/document/d/${id}`,
    `https://x@docs.google.com:443/document/d/${id}`,
    `https://docs.google.com./document//d//${id}`,
    `https://docs.google.com/document/%64/${id}`,
    ` https://docs.google.com/document/d/${id} `,
    `https://docs.google.com/document/d/${id}/mobilebasic`,
    `https://docs.google.com/document/u/0/d/${id}/preview?tab=t.0#bookmark=id.x`,
    `https://docs.google.com/presentation/d/${id};x/edit`,
    `https://docs.google.com/spreadsheet/ccc?key=${id}`,
    `https://docs.google.com/viewer?srcid=${id}`,
    `https://drive.google.com/drive/u/0/folders/${id}?resourcekey=0-x`,
    `https://drive.google.com/drive/mobile/folders/${id}`,
    `https://drive.google.com/u/0/uc?id=${id}&export=download`,
    `https://drive.google.com/open?authuser=0&id=${id}`,
    `https://drive.usercontent.google.com/download?id=${id}&confirm=t`,
    `https://lh3.googleusercontent.com/d/${id}`,
    `https://docs。google。com/document/d/${id}`,
    `https://ｄｏｃｓ.google.com/document/d/${id}`,
    `https://docs%2egoogle.com/document/d/${id}`,
    `https://docs.goo\tgle.com/document/d/${id}`,
    `docs.google.com:443/document/d/${id}`,
    // other kinds of documents and addresses
    `https://docs.google.com/spreadsheets/d/e/${id}/pubhtml?gid=0&single=true`,
    `https://docs.google.com/spreadsheets/d/${id}/export?format=csv&gid=0`,
    `https://docs.google.com/spreadsheets/d/${id}/gviz/tq?tqx=out:csv`,
    `https://docs.google.com/forms/d/${id}/viewform`,
    `https://docs.google.com/drawings/d/${id}/pub`,
    `https://docs.google.com/Doc?docid=${id}`,
    `https://docs.google.com/gview?embedded=true&srcid=${id}`,
    `https://spreadsheets.google.com/ccc?key=${id}`,
    `https://drive.google.com/folderview?id=${id}`,
    `https://drive.google.com/#folders/${id}`,
    `https://drive.google.com/thumbnail?sz=w1&id=${id}`,
    `https://drive.google.com/uc?export=view&amp;id=${id}`,
    `https://drive.google.com/a/acme.com/file/d/${id}/preview`,
    `https://lh3.google.com/u/0/d/${id}=w100`,
    `https://lh4.googleusercontent.com/d/${id}`,
    // addresses of the Google APIs
    `https://sheets.googleapis.com/v4/spreadsheets/${id}/values/A1:B2`,
    `https://sheets.googleapis.com/v4/spreadsheets/${id}:batchUpdate`,
    `https://docs.googleapis.com/v1/documents/${id}`,
    `https://slides.googleapis.com/v1/presentations/${id}/pages/p`,
    `https://www.googleapis.com/drive/v3/files/${id}?alt=media`,
    `https://www.googleapis.com/upload/drive/v3/files/${id}`,
    // made to look like another file's link
    `https://docs.google.com/document/d/OTHER/../${id}/edit`,
    `https://docs.google.com/document/d/OTHER/%2e%2e/${id}/edit`,
    `https://docs.google.com/document/./d/./${id}`,
    `https://docs.google.com/document/d/${id}/OTHER//../x`,
    `https://docs.google.com/a/d/document/d/${id}`,
    `https://docs.google.com/document/d/%31AbC_d-EfG`,
    `https://docs.google.com/document/d/${id}%2Fedit`,
    `http:\\\\docs.google.com\\document\\d\\${id}`,
    `https://drive.google.com/open?i%64=${id}`,
  ])('%s is the bare file id', (link) => {
    expect(googleFileId(link)).toBe(id)
    expect(comparable(link)).toBe(comparable(id))
  })

  test.each([
    `https://docs.google.com.evil.net/document/d/${id}`,
    `https://evil.net/docs.google.com/document/d/${id}`,
    `https://docs.google.com@evil.net/document/d/${id}`,
    `see docs.google.com/document/d/${id}`,
    'https://docs.google.com/document',
    `https://docs.google.com/document/d/${id}/../../x`,
    `https://www.googleapis.com/calendar/v3/calendars/${id}`,
    `https://docs.googleapis.com.evil.net/v1/documents/${id}`,
    `https://docs.google.com。evil.net/document/d/${id}`,
    `https://docsgoogle.com/document/d/${id}`,
    `https://docs.google.com%2eevil.net/document/d/${id}`,
    id,
  ])('%s is not a link to a file', (text) => {
    expect(googleFileId(text)).toBeNull()
    expect(comparable(text)).toBe(text)
  })

  test.each([
    ...['', 'h', 'ht\ttps', 'ｄｏｃｓ.goo', 'docs%2e', 'docs。', 'https://do'],
    ...['https://docs.google.com/document/d/', 'docs.goo', ' drive.google.com/'],
  ])('text starting with %j could become a link', (prefix) => {
    expect(couldBecomeGoogleLink(prefix)).toBe(true)
  })

  test.each(['1AbC', 'a@acme.com', 'docs.acme', 'Hello '])('text starting with %j could not', (prefix) => {
    expect(couldBecomeGoogleLink(prefix)).toBe(false)
  })
})

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
  const call = { source: 'agents', tool: 'Write', sideEffect: 'write', labels: ['internal'] } as const
  const decideOn = (rules: readonly StoredRule[], params: JsonObject) =>
    decide(compilePolicy({ rules, labelRules: [], approvalsEnabled: true }), { ...call, params })
  const ruleOf = (verdict: Verdict, params: StoredRule['params']): StoredRule => ({
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
        const both = decideOn(each, seen)
        const alone = decideOn(each, { file_path })
        expect(rank[both.verdict]).toBeGreaterThanOrEqual(rank[alone.verdict])
        caught += both.verdict === alone.verdict ? 0 : 1
        if (typeof file_path !== 'string') return
        const plain = decideOn(each, { file_path: plainPath(file_path) })
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
          decideOn([ruleOf('allow', [each])], params).matchedRules.length === 1
        if (!matches(seen)) return
        expect(matches({ file_path })).toBe(true)
        expect(matches({ file_path: plainPath(file_path) })).toBe(true)
      }),
      { numRuns: 3_000 },
    )
  })
})
