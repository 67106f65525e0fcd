import { describe, expect, test } from '@jest/globals'
import type { JsonObject } from '../../../src/policy/types.ts'
import type { ApprovalStatus } from '../../../src/contract/status.ts'
import type { Requirement, VoteWithRole } from '../../../src/governance/approvals/requirement.ts'
import { approvalState, isDue, type ApprovalState } from '../../../src/governance/approvals/state.ts'
import { getTool, type ToolName } from '../../../src/tools/index.ts'
import type { ToolDeclaration } from '../../../src/tools/kit/tool.ts'
import { agentPreviewOf, previewOf } from '../../../src/governance/approvals/preview.ts'

const now = new Date('2026-03-01T12:00:00.000Z')
const before = '2026-03-01T11:59:59.999+00:00'
const after = new Date('2026-03-01T12:00:00.001Z')
const own = 'run_1/s/-1'

const vote = (user_id: string, role: 'admin' | 'owner'): VoteWithRole => ({
  user_id,
  for_user: null,
  at: now,
  decision: 'approve',
  role,
  groups: [],
})
const byAdmin = vote('usr_admin', 'admin')
const byOwner = vote('usr_owner', 'owner')
const byRequester = vote('usr_requester', 'admin')
const one = (role: 'admin' | 'owner') => [{ role, count: 1 }]
const oneAdmin: Requirement = { seats: one('admin'), needed: 1, allowSelfApproval: false }

interface Case {
  readonly status: ApprovalStatus
  readonly expires_at?: string | Date | null
  readonly used_by?: string | null
  readonly votes?: readonly VoteWithRole[]
  readonly required?: Partial<Requirement>
}

const stateOf = ({ status, expires_at = after, used_by = null, votes = [], required = {} }: Case) =>
  approvalState(
    { status, expires_at, used_by, authors: [], requested_by: 'usr_requester' },
    votes,
    { ...oneAdmin, ...required },
    now,
    own,
  )

const given = { status: 'approved', votes: [byAdmin] } as const
const cases: readonly (readonly [string, Case, ApprovalState])[] = [
  ['waits for votes', { status: 'pending' }, 'pending'],
  ['has enough votes, but they were not counted yet', { ...given, status: 'pending' }, 'pending'],
  ['waits without an end', { status: 'pending', expires_at: null }, 'pending'],
  ['waits, and its time is over', { status: 'pending', expires_at: before }, 'expired'],
  ['waits, and its time is over at this very moment', { status: 'pending', expires_at: now }, 'expired'],
  ['is stored as expired', { status: 'expired' }, 'expired'],
  ['is stored as expired without an end', { status: 'expired', expires_at: null }, 'expired'],
  ['was approved', given, 'usable'],
  ['was approved without an end', { ...given, expires_at: null }, 'usable'],
  ['was approved and not used in time', { ...given, expires_at: before }, 'expired'],
  ['was approved and used by another call', { ...given, used_by: 'run_2/s/-1' }, 'used'],
  ['was used by another call, and its time is over', { ...given, used_by: 'run_2/s/-1', expires_at: before }, 'used'],
  ['was used by this call', { ...given, used_by: own }, 'usable'],
  ['was used by this call, and its time is over', { ...given, used_by: own, expires_at: before }, 'usable'],
  ['was used by this call, and its voter lost the role', { ...given, used_by: own, votes: [{ ...byAdmin, role: 'member' }] }, 'pending'],
  ['was rejected', { status: 'rejected' }, 'rejected'],
  ['was rejected, and its time is over', { status: 'rejected', expires_at: before }, 'rejected'],
  ['was withdrawn', { status: 'cancelled' }, 'withdrawn'],
  ['was withdrawn, and its time is over', { status: 'cancelled', expires_at: before }, 'withdrawn'],
  ['was approved without any vote', { status: 'approved' }, 'pending'],
  ['now needs two votes and has one', { ...given, required: { needed: 2 } }, 'pending'],
  ['now needs two votes and has two', { ...given, votes: [byAdmin, byOwner], required: { needed: 2 } }, 'usable'],
  ['now needs an owner and has an admin', { ...given, required: { seats: one('owner') } }, 'pending'],
  ['now needs an owner and has one', { ...given, votes: [byOwner], required: { seats: one('owner') } }, 'usable'],
  ['has a voter who is a member now', { ...given, votes: [{ ...byAdmin, role: 'member' }] }, 'pending'],
  ['has a voter who has left', { ...given, votes: [{ ...byAdmin, role: null }] }, 'pending'],
  ['has the requester’s vote only', { ...given, votes: [byRequester] }, 'pending'],
  ['has the requester’s vote where that counts', { ...given, votes: [byRequester], required: { allowSelfApproval: true } }, 'usable'],
  ['has a rejecting vote only', { ...given, votes: [{ ...byAdmin, decision: 'reject' }] }, 'pending'],
] // prettier-ignore

describe('the state of an approval that', () => {
  test.each(cases)('%s', (_name, approval, expected) => {
    expect(stateOf(approval)).toBe(expected)
  })
})

describe('an approval is marked as expired if it', () => {
  test.each([
    ['is pending and its time is over', 'pending', before, true],
    ['is pending and its time is not over', 'pending', after, false],
    ['is pending without an end', 'pending', null, false],
    ['was approved and its time is over', 'approved', before, false],
    ['is marked already', 'expired', before, false],
  ] as const)('%s', (_name, status, expires_at, expected) => {
    expect(isDue({ status, expires_at }, now)).toBe(expected)
  })
})

const shown = (name: ToolName, params: JsonObject) =>
  previewOf(getTool(name) as ToolDeclaration, params, 'ana@larkspur.example')

/** Parameters of calls, and the title that an approver sees. */
const titles: readonly (readonly [ToolName, JsonObject, string])[] = [
  ['memory_set', { key: 'rates', value: 1 }, 'Store a value under “rates”'],
  ['mail_send', { to: ['me', 'b@x.example'], subject: 's', text: 't' }, 'Send a mail to ana@larkspur.example, b@x.example'], // prettier-ignore
  ['calendar_create_event', { title: 'Review', attendees: 'me' }, 'Create the event “Review” and invite ana@larkspur.example'], // prettier-ignore
  ['calendar_create_event', { title: 'Focus' }, 'Create the event “Focus”'],
  ['slack_send_message', { channel: '#ops', text: 'hi' }, 'Send a message to #ops'],
  ['slack_create_channel', { name: 'ops' }, 'Create the channel ops'],
  ['slack_create_channel', { name: 'ops', is_private: true }, 'Create the private channel ops'],
  ['github_create_issue', { repo: 'acme/app', title: 'Bug' }, 'Create the issue “Bug” in acme/app'],
  ['github_comment', { repo: 'acme/app', number: 7, body: 'b' }, 'Comment on acme/app#7'],
  ['github_comment', { repo: 'https://github.com/acme/app/issues/7', body: 'b' }, 'Comment on https://github.com/acme/app/issues/7'], // prettier-ignore
  ['jira_create_issue', { project: 'OPS', summary: 'Down' }, 'Create the issue “Down” in OPS'],
  ['jira_comment', { issue: 'OPS-1', text: 't' }, 'Comment on OPS-1'],
  ['trello_create_card', { board: 'b', list: 'To do', name: 'Card' }, 'Create the card “Card” in “To do”'],
  ['trello_comment', { card: 'c1', text: 't' }, 'Comment on the card c1'],
  ['docs_create', { title: 'Notes', content: 'c' }, 'Create the document “Notes”'],
  ['sheets_append', { spreadsheet: 's1', rows: [[1], [2]] }, 'Add 2 rows to the sheet s1'],
]

describe('the preview of a call', () => {
  test.each(titles)('%s %j: %s', (name, params, title) => {
    expect(shown(name, params).title).toBe(title)
  })

  test('names the people that a mail goes to, and shows `me` as the requester’s address', () => {
    const { fields } = shown('mail_send', { to: 'me', cc: 'B <b@x.example>', subject: 's', text: 'words' })
    expect(fields).toEqual([
      { name: 'to', value: 'ana@larkspur.example' },
      { name: 'cc', value: 'B <b@x.example>' },
      { name: 'subject', value: 's' },
      { name: 'text', value: 'words' },
    ])
  })

  test('of a read shows the first sentence of its description, and its parameters', () => {
    expect(shown('web_search', { query: 'words' })).toEqual({
      title: 'Searches the web',
      fields: [{ name: 'query', value: 'words' }],
    })
  })

  test('of parameters that the tool does not take now shows them all', () => {
    expect(shown('mail_send', { to: 'b@x.example', old: 1 })).toMatchObject({
      title: 'Sends an email',
      fields: [
        { name: 'to', value: 'b@x.example' },
        { name: 'old', value: '1' },
      ],
    })
  })
})

describe('the preview of an agent’s call', () => {
  test.each<[string | null, JsonObject, string]>([
    ['Edit', { file_path: '/srv/a.ts', old_string: 'a', new_string: 'b' }, 'Edit “/srv/a.ts”'],
    ['MultiEdit', { file_path: 'a.txt', edits: [] }, 'Edit “a.txt”'],
    ['NotebookEdit', { notebook_path: 'a.ipynb', new_source: 'x' }, 'Edit “a.ipynb”'],
    ['Write', { content: 'text', file_path: 'a.txt' }, 'Write “a.txt”'],
    ['Read', { file_path: 'a.txt', limit: 5 }, 'Read “a.txt”'],
    ['Bash', { description: 'lists', command: ' ls -l\n' }, 'Run “ls -l”'],
    ['WebFetch', { prompt: 'sum up', url: 'https://a.example/x' }, 'Fetch “https://a.example/x”'],
    ['WebSearch', { query: 'words' }, 'Search the web for “words”'],
    ['Grep', { pattern: 'x', path: 'src' }, 'Call Grep with path “src”'],
    ['Edit', { filePath: 'a.txt' }, 'Call Edit with filePath “a.txt”'],
    ['Write', { file_path: ' ', content: 7 }, 'Call Write'],
    ['mcp__fs__edit', { file_path: 'a.txt' }, 'Call mcp__fs__edit with file_path “a.txt”'],
    ['edit', { filePath: '/etc/passwd', file_path: 'a.txt', note: 'n' }, 'Call edit with note “n”'],
    ['Edit', { filePath: '/etc/passwd', file_path: 'a.txt' }, 'Call Edit'],
    ['Edit', { filePath: 'a.txt', file_path: 'a.txt' }, 'Edit “a.txt”'],
    ['constructor', {}, 'Call constructor'],
    [null, { to: 'bo' }, 'Call a tool with to “bo”'],
  ])('of %s %j has the title %s', (tool, params, title) => {
    expect(agentPreviewOf(tool, params).title).toBe(title)
  })

  test.each([
    ['Edit', { file_path: 'a.txt', old_string: 'one', new_string: 'two' }, 'the place with'],
    ['edit', { filePath: 'a.txt', oldString: 'one', newString: 'two', replaceAll: true }, 'every place with'],
    // Our hook adds the other spelling.
    ['Edit', { old_string: 'one', new_string: 'two', oldString: 'one', newString: 'two' }, 'the place with'],
  ] as const)('%s of a file is a change', (tool, params, where) => {
    const { diff, note } = agentPreviewOf(tool, params)
    expect(diff).toEqual({ before: 'one', after: 'two', skipped: 0 })
    expect(note).toContain(where)
  })

  test('of several edits shows each of them below a line of its own', () => {
    const edits = [
      { old_string: 'one', new_string: 'two' },
      { old_string: 'a\n── change 1 ──', new_string: 'one', replace_all: true },
    ]
    const { diff, note } = agentPreviewOf('MultiEdit', { file_path: 'a.txt', edits })
    expect(diff).toEqual({
      before: '── change 1 ──\n1 │ one\n── change 2, every place ──\n2 │ a\n2 │ ── change 1 ──',
      after: '── change 1 ──\n1 │ two\n── change 2, every place ──\n2 │ one',
      skipped: 0,
    })
    expect(note).toContain('in this order')
  })

  test('that writes a file says that it replaces what is there', () => {
    const { diff, note } = agentPreviewOf('Write', { file_path: 'a.txt', content: 'all of it' })
    expect(diff).toEqual({ before: null, after: 'all of it', skipped: 0 })
    expect(note).toContain('replaces the whole file')
  })

  test('that writes a file shows what it writes, whatever else the agent adds', () => {
    const decoy = { old_string: 'teh', new_string: 'the' }
    const { diff, note } = agentPreviewOf('Write', { file_path: 'a.txt', content: 'all of it', ...decoy })
    expect(diff).toEqual({ before: null, after: 'all of it', skipped: 0 })
    expect(note).toContain('replaces the whole file')
  })

  test.each([
    ['Bash', { command: 'ls', content: 'x' }],
    ['Edit', { old_string: 'one', new_string: 2 }],
    [null, { content: 'x' }],
    ['Edit', { old_string: 'teh', new_string: 'the', oldString: 'true', newString: 'false' }],
    ['Edit', { old_string: 'teh', new_string: 'the', oldString: 'teh' }],
    ['MultiEdit', { edits: [] }],
    ['MultiEdit', { edits: [{ old_string: 'one', new_string: 'two' }, { old_string: 'one' }] }],
    ['MultiEdit', { edits: [{ old_string: 'x'.repeat(5_000), new_string: 'y' }] }],
    ['MultiEdit', { edits: Array.from({ length: 51 }, () => ({ old_string: 'a', new_string: 'b' })) }],
    ['mcp__disk__format', { old_string: 'teh', new_string: 'the' }],
  ] as const)('of %s %j is no change of a file', (tool, params) => {
    expect(agentPreviewOf(tool, params)).not.toHaveProperty('diff')
  })
})
