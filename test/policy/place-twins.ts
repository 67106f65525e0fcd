import { repositoryAt } from '../../src/tools/github/place.ts'
import { fileIdAt } from '../../src/tools/google/client.ts'
import { placeAt } from '../../src/tools/slack/run.ts'
import { boardIdOf, cardIdOf } from '../../src/tools/trello/run.ts'
import { calendarIdOf } from '../../src/policy/readers/google-links.ts'
import { issueKeyOf, projectKeyOf } from '../../src/policy/readers/place-ids.ts'
import type { PlaceKind } from '../../src/policy/readers/places.ts'
import type { ToolName } from '../../src/tools/index.ts'

/* Spellings of one place. A rule on the place must hold for every spelling that the tool reads as this place. */

export const site = 'https://acme.example'

export interface Twins {
  readonly tool: ToolName
  readonly param: string
  /** As a rule names the place. */
  readonly place: string
  /** What the tool reads; null if it refuses the text. */
  readonly executor: (text: string) => string | null
  readonly same: readonly string[]
  readonly others: readonly string[]
  /** Texts that the tool refuses. Other programs could read some of them as the place. */
  readonly refused: readonly string[]
}

const orNull = (read: () => string): string | null => {
  try {
    return read()
  } catch {
    return null
  }
}

export const repository: Twins = {
  tool: 'github_comment',
  param: 'repo',
  place: 'acme/secret',
  executor: (text) =>
    orNull(() => {
      const { owner, repo } = repositoryAt(text, 'https://github.com')
      return `${owner}/${repo}`
    }),
  same: [
    'acme/secret',
    'Acme/Secret',
    'ACME/SECRET.git',
    'https://github.com/acme/secret',
    'https://github.com/acme/secret/',
    'HTTPS://GitHub.com/Acme/Secret',
    'www.github.com/acme/secret',
    'github.com/acme/secret/issues/7',
    'https://github.com/acme/secret/blob/main/src/a.ts#L3',
    'https://github.com/acme/secret?tab=readme',
    'https://github.com/acme/secret#https://github.com/acme/open',
  ],
  others: [
    'acme/open',
    'acme/secret2',
    'acme2/secret',
    'https://github.com/acme/open#acme/secret',
    'https://github.com/acme/open?acme/secret',
  ],
  refused: [
    ...['https://github.com:443/acme/secret', 'https://me:pw@github.com/acme/secret'],
    ...['https://github.com@evil.example/acme/secret', 'http://github.com/acme/secret'],
    ...['https://github.com/acme/%73ecret', 'https://github.com/acme/open/../secret'],
    ...['https://github.com/acme/open/%2e%2e/secret', 'https://github.com/acme/open/．．/secret'],
    ...['https://github.com/acme\\secret', 'https://github.com//acme/secret'],
    ...['https://github。com/acme/secret', 'acme／secret', 'acme/secret\u200b', ' acme/secret'],
    ...['acme/secret\n', 'secret'],
  ],
}

const channel: Twins = {
  tool: 'slack_send_message',
  param: 'channel',
  place: '#announcements',
  executor: (text) =>
    orNull(() => {
      const place = placeAt(text)
      return place.kind === 'name' ? `#${place.name}` : place.kind === 'requester' ? '@me' : place.id
    }),
  same: ['#announcements', 'announcements'],
  others: ['#announcements-2', 'random', '@me', 'C0123ABCD', 'https://acme.slack.com/archives/C0123ABCD'],
  refused: [
    ...['Announcements', '#ANNOUNCEMENTS', '##announcements', '# announcements', ' #announcements'],
    ...['#announcements/', '#announcements?', '#announcements#', '＃announcements', '#ａnnouncements'],
    ...['#announcements\u200b', '@announcements', '%23announcements'],
    'https://acme.slack.com/archives/announcements',
  ],
}

const channelId: Twins = {
  ...channel,
  place: 'https://acme.slack.com/archives/C0123ABCD',
  same: [
    'C0123ABCD',
    'https://acme.slack.com/archives/C0123ABCD',
    'https://other.slack.com/archives/C0123ABCD/',
    'https://acme.slack.com/archives/C0123ABCD/p1700000000000100',
    'https://acme.slack.com/archives/C0123ABCD/p17?thread_ts=1700000000.000100&cid=C0123ABCD',
    'https://acme.enterprise.slack.com/archives/C0123ABCD',
    'https://app.slack.com/client/T0123ABCD/C0123ABCD',
    'https://app.slack.com/client/E0123ABCD/C0123ABCD/',
    'https://app.slack.com/client/T0123ABCD/C0123ABCD/details/top',
    'https://app.slack.com/client/T0123ABCD/C0123ABCD/user_profile/U0123ABCD',
    'https://app.slack.com/client/T0123ABCD/C0123ABCD/thread/C0123ABCD-1700000000.000100',
  ],
  others: ['C0123ABCE', '#c0123abcd', 'c0123abcd', 'https://app.slack.com/client/T0123ABCD/C0123ABCE'],
  refused: [
    'https://acme.slack.com:443/archives/C0123ABCD',
    'https://me@acme.slack.com/archives/C0123ABCD',
    'https://acme.slack.com/archives/C0123ABCD?x=1',
    'https://acme.slack.com/archives/C0123ABCD#x',
    'https://acme.slack.com/archives/x/../C0123ABCD',
    'https://acme.slack.com/archives/%430123ABCD',
    'https://acme.slack。com/archives/C0123ABCD',
    'HTTPS://ACME.SLACK.COM/archives/C0123ABCD',
    'https://acme.slack.com/archives/C0123ABCD/p17?thread_ts=1700000000.000100&cid=C0123ABCE',
    'https://acme.slack.com/archives/C0123ABCD?thread_ts=1700000000.000100&cid=C0123ABCD&x=1',
    'https://acme.slack.com/archives/C0123ABCD?thread_ts=..&cid=C0123ABCD',
    'https://acme.other.slack.com/archives/C0123ABCD',
    'https://enterprise.slack.com.evil.test/archives/C0123ABCD',
    'https://acme.slack.com/client/T0123ABCD/C0123ABCD',
    'https://app.slack.com/client/T0123ABCD',
    'https://app.slack.com/client/C0123ABCD',
    'https://app.slack.com/client/T0123ABCD/C0123ABCD/../C0123ABCE',
    'https://app.slack.com/client/T0123ABCD/C0123ABCD/%2e%2e/C0123ABCE',
    'https://app.slack.com/client/T0123ABCD/C0123ABCD/C0123ABCE',
    'https://app.slack.com/client/T0123ABCD/C0123ABCD/thread/C0123ABCE-1700000000.000100',
    'https://app.slack.com/client/T0123ABCD/C0123ABCD?x=1',
    'https://app.slack.com/client/T0123ABCD/C0123ABCD#x',
    'https://app.slack.com.evil.test/client/T0123ABCD/C0123ABCD',
  ],
}

const issue: Twins = {
  tool: 'jira_comment',
  param: 'issue',
  place: 'OPS-2',
  executor: (text) => issueKeyOf(text, site),
  same: [
    'OPS-2',
    'ops-2',
    `${site}/browse/OPS-2`,
    `${site}/browse/ops-2/`,
    `${site}:443/browse/OPS-2`,
    'HTTPS://ACME.EXAMPLE/browse/OPS-2',
    `${site}/browse/OPS-2?focusedId=1#comment`,
    `${site}/projects/OPS/issues/OPS-2`,
    `${site}/jira/x/../browse/OPS-2`,
    `${site}/jira/%2e%2e/browse/OPS-2`,
    `${site}\\browse\\OPS-2`,
    `${site}/boards/1?selectedIssue=ops-2`,
    `${site}/boards/1?selectedIssue=%4fPS-2`,
    `${site}/browse/OPS-3?selectedIssue=OPS-2`,
    'https://acme。example/browse/OPS-2',
    ` ${site}/browse/OPS-2`,
  ],
  others: ['OPS-22', 'ops-3', 'DEV-2', `${site}/browse/OPS-3#OPS-2`, `${site}/browse/OPS-3?x=OPS-2`],
  refused: [
    'OPS-02',
    ' OPS-2',
    'OPS-2\u200b',
    'ＯPS-2',
    'OPS－2',
    'OPS',
    'https://me:pw@acme.example/browse/OPS-2',
    `${site}/browse/OPS-2/x`,
    `${site}/browse/%4fPS-2`,
    'acme.example/browse/OPS-2',
    'ftp://acme.example/browse/OPS-2',
  ],
}

const project: Twins = {
  tool: 'jira_create_issue',
  param: 'project',
  place: 'ops',
  executor: (text) => projectKeyOf(text, site),
  same: ['OPS', 'Ops', `${site}/projects/OPS`, `${site}/projects/ops/boards/1?x#y`, `${site}/browse/OPS/`],
  others: ['OPS2', 'dev', `${site}/projects/DEV/boards/1#OPS`],
  refused: [' OPS', 'OPS-2', 'https://me@acme.example/projects/OPS', `${site}/projects/%4fPS`, 'ＯPS'],
}

const trello = {
  executorOf: (read: (text: string) => string) => (text: string) => orNull(() => read(text)),
  short: 'AbCdEf12',
  long: '0123456789abcdef01234567',
}

const trelloTwins = (tool: ToolName, param: string, kind: string, read: (text: string) => string) => ({
  tool,
  param,
  place: `https://trello.com/${kind}/${trello.short}/7-a-title`,
  executor: trello.executorOf(read),
  same: [
    trello.short,
    `https://trello.com/${kind}/${trello.short}`,
    `https://trello.com/${kind}/${trello.short}/`,
    `https://trello.com/${kind}/${trello.short}/1-other?x=1#comment`,
    `https://trello.com/${kind}/${trello.short}/../XXXXXXXX`,
    `https://www.trello.com/${kind}/${trello.short}`,
    `https://www.trello.com/${kind}/${trello.short}/1-other`,
  ],
  others: [trello.long, 'abcdef12', 'AbCdEf13', `https://trello.com/${kind}/AbCdEf13#${trello.short}`],
  refused: [
    `http://trello.com/${kind}/${trello.short}`,
    `https://trello.com:443/${kind}/${trello.short}`,
    `https://me@trello.com/${kind}/${trello.short}`,
    `https://TRELLO.com/${kind}/${trello.short}`,
    `https://wwwXtrello.com/${kind}/${trello.short}`,
    `https://www.www.trello.com/${kind}/${trello.short}`,
    `http://www.trello.com/${kind}/${trello.short}`,
    `https://trello.com/x/${trello.short}`,
    `https://trello.com/${kind}/%41bCdEf12`,
    `https://trello.com/x/../${kind}/${trello.short}`,
    `https://trello。com/${kind}/${trello.short}`,
    trello.long.toUpperCase(),
    ` ${trello.short}`,
    `${trello.short}\n`,
  ],
})

const file: Twins = {
  tool: 'docs_read',
  param: 'document',
  place: 'https://docs.google.com/document/d/1AbC_d/edit',
  executor: (text) => orNull(() => fileIdAt('document', text)),
  same: [
    '1AbC_d',
    'https://docs.google.com:443/document/d/1AbC_d',
    'https://me@drive.google.com/open?id=1AbC_d',
    'https://docs。google.com/document/x/%2e%2e/d/1AbC_d/#x',
    ' 1AbC_d',
    '\t1AbC_d\u00a0\u3000\r\n',
    '\u2003\ufeffhttps://docs.google.com/document/d/1AbC_d\u2028 ',
  ],
  others: ['1abc_d', '1AbC_e', 'https://docs.google.com/document/d/1AbC_e#1AbC_d'],
  refused: [
    ...['https://docs.google.com/', '1AbC_d\u200b', '1AbC _d', '\u180e1AbC_d'],
    ...['https://evil.example/d/1AbC_d', ''],
  ],
}

const calendar: Twins = {
  tool: 'calendar_create_event',
  param: 'calendar',
  place: 'primary',
  executor: (text) => calendarIdOf(text),
  same: ['primary', ' primary', 'primary\n', '\u00a0primary\u3000', '\ufeffprimary\u2028'],
  others: ['Primary', 'primary2', 'team@group.calendar.example'],
  refused: [
    ...['primary\u200b', '\u2060primary', '\u180eprimary', 'primary\u0085', '\u200eprimary'],
    ...['prim ary', ' '],
  ],
}

const list: Twins = {
  tool: 'trello_create_card',
  param: 'list',
  place: 'To do',
  executor: (text) => text,
  same: ['To do'],
  others: ['to do', 'To do ', 'https://trello.com/c/AbCdEf12'],
  refused: [],
}

/** The kinds of places that tools of the catalogue have. Only a shell of an agent has a `folder`. */
export const twins: { readonly [kind in Exclude<PlaceKind, 'folder'>]: readonly Twins[] } = {
  repository: [repository],
  channel: [channel, channelId],
  jira_issue: [issue],
  jira_project: [project],
  trello_card: [trelloTwins('trello_comment', 'card', 'c', cardIdOf)],
  trello_board: [trelloTwins('trello_list_cards', 'board', 'b', boardIdOf)],
  as_written: [list],
  google_file: [file],
  google_calendar: [calendar],
}
