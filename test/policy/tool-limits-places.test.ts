import { describe, expect, test } from '@jest/globals'
import type { Partial } from '../../src/policy/values.ts'
import { keeps, app } from './limit-check.ts'

/* Limits on the repositories and channels that a call may reach. */

const zeroWidth = '\u200b'

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
    expect([on('acme/app'), on('ACME/web'), on('acme2/app'), on('evil/acme')]).toEqual([
      true,
      true,
      false,
      false,
    ])
  })
})

describe('`allowed_repos` on the path of a file', () => {
  const onPath = (path: Partial) => keeps('github_get_file', app, { repo: 'acme/app', path })
  test.each(['README.md', 'src/a.b/..c.ts', 'a b/ü.md', '.github/ci.yml', '...', 'a%20b.md'])(
    'lets `%s` through',
    (path) => expect(onPath(path)).toBe(true),
  )
  test.each([
    '../other/contents/x',
    'src/../../../evil/app/contents/x',
    'src/..',
    '..',
    'a/%2e%2e/b',
    'a/%2E./b',
    'a/%252e%252e/b',
    'a%2f..%2fb',
    'a\\..\\b',
    'a/．．/b',
    'a/‥/b',
    'a/ .. /b',
    'a/..%00/b',
    'a/..;x/b',
    'a/..%3bx/b',
    `a/.${zeroWidth}./b`,
    'a\u0000b',
    'https://github.com/evil/app/blob/main/x',
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
