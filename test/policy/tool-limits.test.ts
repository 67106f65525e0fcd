import fc from 'fast-check'
import { describe, expect, test } from '@jest/globals'
import { getTool, catalog } from '../../src/tools/index.ts'
import { Budget } from '../../src/policy/budget.ts'
import { channelOf } from '../../src/policy/readers/place-ids.ts'
import { climbs, repositoryOf, ruleRepository, searchScope } from '../../src/policy/readers/repositories.ts'
import { compileLimits, type Excess, type Restrictions, type Reading } from '../../src/policy/tool-limits.ts'
import type { JsonObject } from '../../src/policy/types.ts'
import { Hole, type Partial } from '../../src/policy/values.ts'

const check = (tool: string, restrictions: Restrictions, params: Partial): Excess | null =>
  compileLimits(getTool(tool)?.constraints ?? {}, restrictions)(params, new Budget())

const keeps = (tool: string, restrictions: Restrictions, params: Partial): boolean =>
  check(tool, restrictions, params) === null

const app = { allowed_repos: ['acme/app'] }
const acme = { allowed_domains: ['acme.com'] }
const general = { allowed_channels: ['#general'] }
const zeroWidth = '\u200b'
const github = 'https://github.com/'

/** For each way to read a parameter: a call that keeps the limit, and its twin that only looks like it. */
type Twin = readonly [tool: string, Restrictions, honest: JsonObject, hostile: JsonObject]
const twins: Readonly<Record<Exclude<Reading, 'audience'>, Twin>> = {
  recipients: ['mail_send', acme, { to: 'a@mail.acme.com' }, { to: 'a@acme.com.evil.test' }],
  calendar: ['calendar_create_event', acme, { calendar: 'primary' }, { calendar: 'primary@evil.test' }],
  message: ['mail_send', { max_message_length: 4 }, { text: 'four' }, { text: 'fo\u0301ur' }],
  repository: [
    'github_list_issues',
    app,
    { repo: `${github}acme/app` },
    { repo: `${github}evil/app#acme/app` },
  ],
  search: ['github_search_code', app, { query: 'x repo:acme/app' }, { query: 'x repo:acme/app OR y' }],
  path: [
    'github_get_file',
    app,
    { repo: 'acme/app', path: 'a/..b' },
    { repo: 'acme/app', path: 'a/%2e%2e/b' },
  ],
  channel: ['slack_send_message', general, { channel: '#general' }, { channel: '#gеneral' }],
}

test.each(Object.entries(twins))(
  'the reading `%s` tells an honest value from its hostile twin',
  (reading, [tool, limits, honest, hostile]) => {
    const read = Object.values(getTool(tool)?.constraints ?? {}).flatMap((params) => Object.values(params))
    expect(read).toContain(reading)
    expect([keeps(tool, limits, honest), keeps(tool, limits, hostile)]).toEqual([true, false])
  },
)

test('every reading of the catalogue has a hostile twin', () => {
  const all = Object.values(catalog).flatMap(({ constraints }) =>
    Object.values(constraints).flatMap((params) => Object.values<string>(params)),
  )
  // Hostile readers of an audience are in tool-access.test.ts, because no parameter names them.
  expect([...new Set(all)].filter((reading) => reading !== 'audience').sort()).toEqual(
    Object.keys(twins).sort(),
  )
})

const many = (name: string) => Array.from({ length: 1_000 }, (_, index) => `${name}-${index}`)

describe('`allowed_domains`', () => {
  const onTo = (to: Partial, tool = 'mail_send', param = 'to') => keeps(tool, acme, { [param]: to })
  test.each(['a@acme.com', 'a@mail.acme.com', 'A <a@ACME.com>, b@acme.com', 'a@acme.com.', 'a@acme．com'])(
    'lets `%s` through',
    (to) => expect(onTo(to)).toBe(true),
  )
  test.each([
    ['another domain', 'a@evil.test'],
    ['a domain that goes on', 'a@acme.com.evil.test'],
    ['a domain that ends alike', 'a@evilacme.com'],
    ['one of two', 'a@acme.com; b@evil.test'],
    ['mixed scripts', 'a@аcme.com'],
    ['an encoded dot', 'a@evil%2eacme.com@evil.test'],
    ['full-width dots behind it', 'a@acme.com．evil．test'],
    ['a name that is an address', '"a@acme.com" <b@evil.test>'],
    ['user info', 'a@acme.com@evil.test'],
    ['no address', 'everybody'],
  ])('refuses %s', (_, to) => expect(onTo(to)).toBe(false))
  test('limits the attendees of a calendar event', () => {
    expect(onTo(['a@acme.com', 'b@evil.test'], 'calendar_create_event', 'attendees')).toBe(false)
    expect(onTo(['a@acme.com'], 'calendar_create_event', 'attendees')).toBe(true)
    expect(keeps('calendar_create_event', acme, { title: 't' })).toBe(true)
  })
  test.each([
    ['primary', true],
    [' primary ', true],
    ['ana@acme.com', true],
    ['ceo@evil.test', false],
    ['c_1@group.calendar.google.com', false],
    ['anything', false],
  ])('limits whose calendar gets an event: `%s` %s', (calendar, isKept) => {
    expect(onTo(calendar, 'calendar_create_event', 'calendar')).toBe(isKept)
  })
})

describe('`max_message_length`', () => {
  const four = { max_message_length: 4 }
  test.each([
    ['slack_send_message', 'text'],
    ['mail_send', 'text'],
    ['mail_send', 'html'],
    ['docs_create', 'content'],
    ['github_comment', 'body'],
    ['github_create_issue', 'title'],
    ['jira_comment', 'text'],
    ['trello_comment', 'attachment_content'],
    ['calendar_create_event', 'description'],
  ])('%s: reads `%s`', (tool, param) => {
    expect(keeps(tool, four, { [param]: 'four' })).toBe(true)
    expect(keeps(tool, four, { [param]: 'fifth' })).toBe(false)
    expect(keeps(tool, four, { [param]: 'a\u0301\u0301\u0301\u0301' })).toBe(false)
  })
})

describe('values that are not known yet', () => {
  const unknown = new Hole(null)
  test.each<[string, Restrictions, Partial, boolean | null]>([
    ['github_comment', app, { repo: unknown }, false],
    ['github_comment', app, { repo: new Hole('acme/') }, false],
    ['github_comment', app, { repo: 'acme/app', body: unknown }, null],
    ['github_comment', app, { repo: 'evil/app', body: unknown }, true],
    ['github_search_code', app, { query: unknown, repo: 'acme/app' }, false],
    ['github_search_code', app, { query: unknown, repo: 'evil/app' }, true],
    ['github_get_file', app, { repo: 'acme/app', path: unknown }, false],
    ['slack_send_message', { allowed_channels: ['@me'] }, { channel: unknown }, false],
    ['slack_send_message', { max_message_length: 4 }, { text: new Hole('fifth') }, true],
    ['slack_send_message', { max_message_length: 4 }, { text: new Hole('a') }, false],
    ['slack_send_message', { max_message_length: 4 }, { text: new Hole('ab', { after: ['c', 'de'] }) }, true],
    ['slack_send_message', { max_message_length: 4 }, { text: new Hole('ab', { after: ['cd'] }) }, false],
    ['mail_send', { allowed_domains: ['acme.com'] }, { to: unknown }, false],
    ['mail_send', { allowed_domains: ['acme.com'] }, { to: 'a@evil.test', cc: unknown }, true],
    ['mail_send', {}, { to: unknown }, null],
  ])('%s, %j, %j: certain %j', (tool, limits, params, isCertain) =>
    expect(check(tool, limits, params)?.isCertain ?? null).toBe(isCertain),
  )

  test('whatever they turn out to be, the answer lies within the bounds', () => {
    const values: Record<string, readonly Partial[]> = {
      repo: ['acme/app', 'evil/app', 'https://github.com/acme/app', 'acme/app/..', '', null],
      query: ['x', 'x repo:acme/app', 'repo:acme/app repo:evil/app', 'a OR b', '', null],
      channel: ['#releases', '@me', 'C024BE91L', '#other', '', null],
      path: ['a.md', '../x', '', null],
      to: ['a@acme.com', 'b@evil.test', ['a@acme.com', 'b@evil.test'], '', null],
      text: ['', 'four', 'fifth', null],
    }
    const tools = ['github_search_code', 'github_get_file', 'slack_send_message', 'mail_send']
    const limits = { ...app, allowed_channels: ['#releases', '@me'], allowed_domains: ['acme.com'], max_message_length: 4 } // prettier-ignore
    const filling = fc.record(
      Object.fromEntries(
        Object.entries(values).map(([name, each]) => [name, fc.constantFrom<Partial>(...each)]),
      ),
    )
    const hidden = fc.record(
      Object.fromEntries(
        Object.keys(values).map((name) => [name, fc.option(fc.nat(12), { nil: undefined })]),
      ),
    )
    fc.assert(
      fc.property(fc.constantFrom(...tools), filling, hidden, (tool, params, hide) => {
        const partial = Object.fromEntries(
          Object.entries<Partial>(params).map(([name, value]): [string, Partial] => {
            const shown = hide[name]
            if (shown === undefined) return [name, value]
            // A text is hidden from some position on, and other values as a whole.
            return [name, new Hole(typeof value === 'string' && shown > 0 ? value.slice(0, shown) : null)]
          }),
        )
        const planned = check(tool, limits, partial)
        const actual = check(tool, limits, params)
        if (planned === null) expect(actual).toBeNull()
        if (planned?.isCertain === true) expect(actual).not.toBeNull()
      }),
      { numRuns: 20_000 },
    )
  })
})

test.each<[string, string, Restrictions, Partial]>([
  ['repositories', 'github_comment', { allowed_repos: many('acme/app') }, { repo: 'evil/app' }],
  [
    'domains',
    'mail_send',
    { allowed_domains: many('acme').map((name) => `${name}.com`) },
    { to: 'a@evil.com' },
  ],
  ['channels', 'slack_send_message', { allowed_channels: many('#team') }, { channel: '#other' }],
])('the sentence about %s names five of a long list', (_, tool, restrictions, params) => {
  const issue = check(tool, restrictions, params)?.issue ?? ''
  expect(issue).toContain(' and 995 more (')
  expect(issue.length).toBeLessThan(250)
})

describe('readers', () => {
  test.each([
    ['acme/app', 'acme/app'],
    ['acme/*', 'acme/*'],
    ['ACME/App', 'acme/app'],
    ['acme/.*', null],
    ['*/app', null],
    ['*', null],
    ['acme/app-*', null],
    ['https://github.com/acme/app', null],
    ['a/b/*', null],
    ['', null],
  ])('a repository of a policy: `%s`', (text, read) => expect(ruleRepository(text)).toBe(read))

  test('take linear time', () => {
    for (const piece of ['a/', '/..', '%25', 'repo:', '"', 'repo:"', '\\', '.', 'acme/app ', '#a']) {
      const long = piece.repeat(1_000_000 / piece.length)
      const short = piece.repeat(4_000 / piece.length)
      for (const text of [long, short, `https://github.com/acme/app/${short}`]) {
        repositoryOf(text)
        climbs(text)
        searchScope(text)
        channelOf(text)
      }
    }
  })
})

describe('`allowed_repos` on the parameter `repo`', () => {
  const onRepo = (repo: Partial) => keeps('github_comment', app, { repo, number: 1, body: 'b' })
  test.each([
    'acme/app',
    'ACME/App',
    'acme/app.git',
    'https://github.com/acme/app',
    'https://www.github.com/acme/app/',
    'github.com/acme/app/issues/7',
    'https://github.com/acme/app/blob/main/src/a.ts#L3-L9',
    'https://github.com/acme/app?tab=readme-ov-file',
    'https://github.com/acme/app#https://github.com/evil/app',
  ])('lets `%s` through', (repo) => expect(onRepo(repo)).toBe(true))

  test.each([
    ['another repository', 'acme/web'],
    ['another owner', 'evil/app'],
    ['a longer name', 'acme/app2'],
    ['a longer owner', 'xacme/app'],
    ['a link to another', 'https://github.com/evil/app'],
    ['an allowed repository in the fragment', 'https://github.com/evil/app#acme/app'],
    ['an allowed link in the fragment', 'https://github.com/evil/app#https://github.com/acme/app'],
    ['an allowed repository in the query', 'https://github.com/evil/app?r=acme/app'],
    ['only a fragment', 'https://github.com/#/acme/app'],
    ['another host', 'https://evil.test/acme/app'],
    ['a host that ends alike', 'https://evilgithub.com/acme/app'],
    ['a host that goes on', 'https://github.com.evil.test/acme/app'],
    ['user info', 'https://github.com@evil.test/acme/app'],
    ['user info before the host', 'https://a:b@github.com/acme/app'],
    ['a port', 'https://github.com:8443/acme/app'],
    ['a plain connection', 'http://github.com/acme/app'],
    ['a path that climbs', 'https://github.com/acme/app/../../evil/app'],
    ['a path that climbs, encoded', 'https://github.com/acme/app/%2e%2e/%2E%2E/evil/app'],
    ['a path that climbs, encoded twice', 'https://github.com/acme/app/%252e%252e/%252e%252e/evil/app'],
    ['a path that climbs, with backslashes', 'https://github.com/acme/app\\..\\..\\evil\\app'],
    ['encoded backslashes', 'https://github.com/acme/app/%5c..%5c..%5cevil'],
    ['`..` in place of a name', 'acme/..'],
    ['three parts', 'acme/app/../../evil/app'],
    ['two repositories', 'acme/app evil/app'],
    ['a line break', 'acme/app\n'],
    ['an encoded slash', 'evil%2Fapp/acme/app'],
    ['an encoded dot', 'acme/%2e%2e/evil/app'],
    ['full-width dots', 'acme/．．/evil/app'],
    ['full-width letters', 'ａｃｍｅ/app'],
    ['a full-width slash', 'acme／app'],
    ['mixed scripts', 'аcme/app'],
    ['the sign of kelvin', 'acme/app\u212a'],
    ['an invisible character', `acme/app${zeroWidth}`],
    ['white space', ' acme/app'],
    ['a list', ['acme/app']],
    ['an object', { full_name: 'acme/app' }],
    ['a number', 7],
    ['nothing', ''],
    ['null', null],
    ['a megabyte', `acme/${'a'.repeat(1_000_000)}`],
  ])('refuses %s', (_, repo) => expect(onRepo(repo)).toBe(false))

  test('refuses a call without one', () => expect(keeps('github_comment', app, { body: 'b' })).toBe(false))

  test('`owner/*` stands for every repository of the owner, and no other', () => {
    const all = { allowed_repos: ['Acme/*'] }
    const on = (repo: string) => keeps('github_comment', all, { repo, body: 'b' })
    expect([on('acme/app'), on('ACME/web')]).toEqual([true, true])
    expect([on('acme2/app'), on('evil/acme')]).toEqual([false, false])
  })
})

describe('`allowed_repos` on the path of a file', () => {
  const onPath = (path: Partial) => keeps('github_get_file', app, { repo: 'acme/app', path })
  test.each(['README.md', 'src/a.b/..c.ts', 'a b/ü.md', '.github/ci.yml', '...', 'a%20b.md'])(
    'lets `%s` through',
    (path) => expect(onPath(path)).toBe(true),
  )
  test.each([
    ...['../other/contents/x', 'src/../../../evil/app/contents/x', 'src/..', '..', 'a/%2e%2e/b', 'a/%2E./b'],
    ...['a/%252e%252e/b', 'a%2f..%2fb', 'a\\..\\b', 'a/．．/b', 'a/‥/b', 'a/ .. /b', 'a/..%00/b', 'a/..;x/b'],
    ...['a/..%3bx/b', `a/.${zeroWidth}./b`, 'a\u0000b', 'https://github.com/evil/app/blob/main/x'],
    `a/%${'25'.repeat(20)}2e%${'25'.repeat(20)}2e/b`,
  ])('refuses `%s`', (path) => expect(onPath(path)).toBe(false))
  test('and on the branch', () => {
    expect(keeps('github_get_file', app, { repo: 'acme/app', path: 'a', ref: 'main' })).toBe(true)
    expect(keeps('github_get_file', app, { repo: 'acme/app', path: 'a', ref: '../../x' })).toBe(false)
  })
})

describe('`allowed_repos` on searches', () => {
  const two = { allowed_repos: ['acme/app', 'acme/web', 'labs/*'] }
  const onQuery = (query: string, more: { [name: string]: Partial } = {}) =>
    keeps('github_search_code', two, { query, ...more })
  test.each([
    'parse repo:acme/app',
    'repo:acme/app repo:acme/web parse',
    'parse repo:"acme/app"',
    '"a phrase" REPO:Acme/App',
    'org:labs parse',
    'user:labs',
    'parse repo:labs/tools language:ts',
    '"x OR y" repo:acme/app',
  ])('lets `%s` through', (query) => expect(onQuery(query)).toBe(true))

  test.each([
    ['no repository', 'parse'],
    ['another repository', 'parse repo:evil/app'],
    ['two repositories, one outside', 'repo:acme/app repo:evil/app'],
    ['two repositories, one outside, the other order', 'repo:evil/app repo:acme/app'],
    ['an owner of whom one repository is allowed', 'org:acme'],
    ['another owner', 'user:evil repo:acme/app'],
    ['an enterprise', 'enterprise:acme repo:acme/app'],
    ['an alternative', 'parse OR repo:acme/app'],
    ['a negated repository', 'parse -repo:acme/app'],
    ['a negated repository in words', 'parse NOT repo:acme/app'],
    ['parentheses', '(repo:acme/app OR parse)'],
    ['a regular expression around it', '/x repo:acme/app y/'],
    ['a phrase that looks like a repository', '"repo:acme/app" parse'],
    ['a phrase with a repository inside', '"x repo:acme/app y"'],
    ['a phrase behind a word', 'a"x repo:acme/app y"'],
    ['a phrase behind another qualifier', 'path:"x repo:acme/app y"'],
    ['a quote that never closes', '"parse repo:acme/app'],
    ['an escaped quote', '"\\" repo:acme/app "'],
    ['a repository as a part of a word', 'xrepo:acme/app'],
    ['a list of repositories', 'repo:acme/app,evil/app'],
    ['a repository with `..`', 'repo:acme/app/../../evil/app'],
    ['a full-width colon', 'repo：evil/app repo:acme/app'],
    ['full-width letters', 'ｒｅｐｏ:evil/app repo:acme/app'],
    ['mixed scripts', 'repo:аcme/app'],
    ['an invisible character before it', `${zeroWidth}repo:acme/app`],
    ['an invisible character behind it', `repo:acme/app${zeroWidth}`],
    ['a line separator as a blank', 'parse\u2028repo:acme/app'],
    ['a tab', 'parse\trepo:acme/app'],
    ['an encoded slash', 'repo:acme%2fapp'],
    ['a blank value', 'repo: acme/app repo:'],
    ['a regular expression of a qualifier around it', 'path:/[ repo:acme/app ]/ parse'],
    ['a regular expression that ends in it', 'content:/x repo:acme/app'],
    ['an alternative in small letters', 'parse or repo:acme/app'],
    ['a negation in small letters', 'parse not repo:acme/app'],
    ['an invisible character in another qualifier', `re${zeroWidth}po:evil/app repo:acme/app`],
    ['an invisible character behind a qualifier', `repo${zeroWidth}:evil/app repo:acme/app`],
    ['a soft hyphen in a qualifier', 're\u00adpo:evil/app repo:acme/app'],
    ['more than GitHub takes', `${'a'.repeat(250)} repo:acme/app`],
  ])('refuses %s', (_, query) => expect(onQuery(query)).toBe(false))

  test('the parameter `repo` bounds a search, and its query cannot widen it', () => {
    expect(onQuery('parse', { repo: 'acme/app' })).toBe(true)
    expect(onQuery('parse repo:acme/web', { repo: 'acme/app' })).toBe(true)
    expect(onQuery('parse repo:evil/app', { repo: 'acme/app' })).toBe(false)
    expect(onQuery('parse OR x', { repo: 'acme/app' })).toBe(false)
    expect(onQuery('parse repo:acme/app', { repo: 'evil/app' })).toBe(false)
  })
})

describe('`allowed_channels`', () => {
  const listed = { allowed_channels: ['#releases', 'C024BE91L', '@me', '#großes-team'] }
  const onChannel = (channel: Partial) => keeps('slack_send_message', listed, { channel, text: 't' })
  test.each([
    '#releases',
    'releases',
    'C024BE91L',
    '@me',
    '#großes-team',
    'https://acme.slack.com/archives/C024BE91L',
    'https://acme.slack.com/archives/C024BE91L/p1700000000000100',
    'https://acme.slack.com/archives/C024BE91L/p1700?thread_ts=1700000000.000100&cid=C024BE91L',
    'https://app.slack.com/client/T024BE7LD/C024BE91L',
    'https://acme.enterprise.slack.com/archives/C024BE91L',
  ])('lets `%s` through', (channel) => expect(onChannel(channel)).toBe(true))

  test.each([
    ['another name', '#general'],
    ['a longer name', '#releases2'],
    ['another id', 'C024BE91M'],
    ['an id in lower case', 'c024be91l'],
    ['a person', 'U024BE7LH'],
    ['a person’s name', '@ann'],
    ['`@me` in capitals', '@ME'],
    ['`@me` and more', '@me, #general'],
    ['two channels', '#releases,#general'],
    ['a name in capitals', '#Releases'],
    ['a full-width sign', '＃releases'],
    ['full-width letters', '#ｒeleases'],
    ['mixed scripts', '#rеleases'],
    ['an invisible character', `#releases${zeroWidth}`],
    ['white space', ' #releases'],
    ['a line break', '#releases\n#general'],
    ['an encoded sign', '%23releases'],
    ['two signs', '##releases'],
    ['a link of another host', 'https://acme.slack.com.evil.test/archives/C024BE91L'],
    ['a link to another channel', 'https://acme.slack.com/archives/C999BE91L#C024BE91L'],
    ['a link with a query', 'https://acme.slack.com/archives/C024BE91L?cid=C999BE91L'],
    ['a link of the web app that climbs', 'https://app.slack.com/client/T024BE7LD/C024BE91L/../C999BE91L'],
    ['a link that climbs', 'https://acme.slack.com/archives/C024BE91L/../C999BE91L'],
    ['a link with an encoded id', 'https://acme.slack.com/archives/%43024BE91L'],
    ['a list', ['#releases']],
    ['null', null],
  ])('refuses %s', (_, channel) => expect(onChannel(channel)).toBe(false))

  test('refuses a call without one', () => expect(keeps('slack_send_message', listed, {})).toBe(false))

  test('limits channels that are created', () => {
    expect(keeps('slack_create_channel', listed, { name: 'releases' })).toBe(true)
    expect(keeps('slack_create_channel', listed, { name: 'general' })).toBe(false)
  })
})
