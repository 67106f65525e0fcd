import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { channelOf } from '../../src/policy/readers/channels.ts'
import { climbs, repositoryOf, ruleRepository, searchScope } from '../../src/policy/readers/repositories.ts'
import { catalog, getTool } from '../../src/catalog/index.ts'
import type { Reading, Restrictions } from '../../src/policy/tool-limits.ts'
import type { JsonObject } from '../../src/policy/types.ts'
import { Hole, type Partial } from '../../src/policy/values.ts'
import { check, keeps, app } from './limit-check.ts'

/** For each way to read a parameter: a call that keeps the limit, and its twin that only looks like it. */
const twins: Readonly<
  Record<
    Exclude<Reading, 'audience'>,
    readonly [tool: string, Restrictions, honest: JsonObject, hostile: JsonObject]
  >
> = {
  recipients: [
    'mail_send',
    { allowed_domains: ['acme.com'] },
    { to: 'a@mail.acme.com' },
    { to: 'a@acme.com.evil.test' },
  ],
  calendar: [
    'calendar_create_event',
    { allowed_domains: ['acme.com'] },
    { calendar: 'primary' },
    { calendar: 'primary@evil.test' },
  ],
  message: ['mail_send', { max_message_length: 4 }, { text: 'four' }, { text: 'fo\u0301ur' }],
  repository: [
    'github_list_issues',
    app,
    { repo: 'https://github.com/acme/app' },
    { repo: 'https://github.com/evil/app#acme/app' },
  ],
  search: ['github_search_code', app, { query: 'x repo:acme/app' }, { query: 'x repo:acme/app OR y' }],
  path: [
    'github_get_file',
    app,
    { repo: 'acme/app', path: 'a/..b' },
    { repo: 'acme/app', path: 'a/%2e%2e/b' },
  ],
  channel: [
    'slack_send_message',
    { allowed_channels: ['#general'] },
    { channel: '#general' },
    { channel: '#gеneral' },
  ],
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
    Object.values(constraints).flatMap((params) => Object.values(params)),
  )
  // Hostile readers of an audience are in audience.test.ts, because no parameter names them.
  expect([...new Set(all)].filter((reading) => reading !== 'audience').sort()).toEqual(
    Object.keys(twins).sort(),
  )
})

const many = (name: string) => Array.from({ length: 1_000 }, (_, index) => `${name}-${index}`)

describe('`allowed_domains`', () => {
  const acme = { allowed_domains: ['acme.com'] }
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
