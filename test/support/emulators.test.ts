import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import * as jiraJs from 'jira.js/cloud'
import { createTrelloClient } from 'trello.js'
import type { z } from 'zod'
import { describe as describedNow } from './atlassian/describe.ts'
import { describedIn } from './atlassian/described.ts'
import { type Emulator, emulatorToken } from './emulators.ts'
import { described, issuesOfRequest, type Method } from './google/described.ts'
import { jiraCredential, type JiraEmulator, jiraWith, startJira } from './jira-emulator.ts'
import { exampleOf } from './slack-described.ts'
import { startSlack } from './slack-emulator.ts'
import {
  listElsewhere,
  startTrello,
  trelloCredential,
  type TrelloEmulator,
  trelloWith,
} from './trello-emulator.ts'
import {
  aConversation,
  channels,
  done,
  madeChannel,
  madeMessage,
  messages,
  ownAccount,
} from '../../src/tools/slack/run.ts'

describe('the stand-in for Jira', () => {
  /*
   * Tests the stand-in for Jira with jira.js. The client and the schemas of jira.js are generated from Atlassian's
   * OpenAPI description. The tests check the structure of requests and answers. They do not check how Jira itself handles
   * requests.
   */

  test('the descriptions are those of the library', async () => {
    expect(describedIn('jira')).toEqual(await describedNow('jira'))
  })

  const watchers = '/rest/api/3/issue/OPS-1/watchers'
  const search = 'searchAndReconsileIssuesUsingJqlPost'
  test.each([
    ['GET', '/rest/api/3/issue/OPS-1?colour=red', undefined, 'getIssue: no query parameter colour'],
    ['GET', watchers, undefined, `no operation GET ${watchers}`],
    ['POST', '/rest/api/3/search/jql', { jql: 'project = OPS', startAt: 1 }, `${search}: no field startAt`],
  ])('%s %s is refused: Atlassian describes no such request', async (method, path, body, issue) => {
    const { email, token } = jiraCredential
    const headers = { authorization: `Basic ${Buffer.from(`${email}:${token}`).toString('base64')}` }
    const given = body === undefined ? null : JSON.stringify(body)
    const answer = await fetch(`${emulator.url}${path}`, { method, headers, body: given })
    expect([answer.status, await answer.json()]).toMatchObject([418, { errorMessages: [issue] }])
  })

  let emulator: JiraEmulator
  let client: ReturnType<typeof jiraJs.createCloudClient>
  beforeAll(async () => {
    emulator = await startJira(jiraWith(['OPS'], [{ key: 'OPS-1', summary: 'one' }]))
    const { email, token } = jiraCredential
    client = jiraJs.createCloudClient({
      host: emulator.url,
      auth: { type: 'basic', email, apiToken: token },
      onSchemaMismatch: 'throw',
    })
  })
  afterAll(() => emulator?.close())

  const paragraph = (text: string) => ({
    type: 'doc',
    version: 1,
    content: [{ type: 'paragraph', content: [{ type: 'text', text }] }],
  })
  const properties = [{ key: 'countersign.call', value: { id: 'a mark' } }]

  test('an issue that the client creates is found with its property', async () => {
    const fields = {
      project: { key: 'OPS' },
      summary: 's',
      issuetype: { name: 'Task' },
      description: paragraph('t'),
    }
    const { key } = await client.issues.createIssue({ fields, properties })
    const found = await client.issueSearch.searchAndReconsileIssuesUsingJqlPost({
      jql: 'project = OPS',
      fields: ['summary'],
      properties: ['countersign.call'],
      maxResults: 100,
    })
    expect(found.issues?.find((each) => each.key === key)).toMatchObject({
      properties: { 'countersign.call': { id: 'a mark' } },
    })
    expect((await client.issues.getIssue({ issueIdOrKey: key })).fields).toMatchObject({ summary: 's' })
  })

  test('a project that the client reads is shown', async () => {
    expect(await client.projects.getProject({ projectIdOrKey: 'OPS' })).toMatchObject({ key: 'OPS' })
  })

  test('a comment that the client makes is listed, and its properties by its id', async () => {
    const made = await client.issueComments.addComment({
      issueIdOrKey: 'OPS-1',
      body: paragraph('t'),
      properties,
    })
    const { comments } = await client.issueComments.getComments({
      issueIdOrKey: 'OPS-1',
      orderBy: '-created',
    })
    expect(comments?.map(({ id }) => id)).toEqual([made.id])
    const { values } = await client.issueComments.getCommentsByIds({
      ids: [Number(made.id)],
      expand: 'properties',
    })
    expect(values?.[0]?.properties).toEqual(properties)
  })

  test('a file that the client attaches is shown', async () => {
    const [made] = await client.issueAttachments.addAttachment({
      issueIdOrKey: 'OPS-1',
      attachments: { filename: 'a.txt', content: new Blob(['text']) },
    })
    const { fields } = await client.issues.getIssue({ issueIdOrKey: 'OPS-1', fields: ['attachment'] })
    expect(fields?.['attachment']).toMatchObject([{ id: made?.id, filename: 'a.txt' }])
  })

  test('the account of the credential is shown', async () => {
    expect(await client.myself.getCurrentUser()).toMatchObject({ emailAddress: jiraCredential.email })
  })
})

describe('the stand-in for Trello', () => {
  /*
   * Tests the stand-in for Trello with trello.js. The client and the schemas of trello.js are generated from Trello's
   * OpenAPI description. The tests check paths, names of values and answers. They do not check how Trello handles the
   * values.
   */

  const { key, token } = trelloCredential
  const authorization = `OAuth oauth_consumer_key="${key}", oauth_token="${token}"`

  test('the descriptions are those of the library', async () => {
    expect(describedIn('trello')).toEqual(await describedNow('trello'))
  })

  test.each([
    ['GET', '/1/cards/c0000256?list_fields=name', 'getCard: no query parameter list_fields'],
    ['GET', '/1/cards/c0000256/board', 'no operation GET /1/cards/c0000256/board'],
    ['POST', '/1/cards', 'createCard: no field colour'],
  ])('%s %s is refused: Trello describes no such request', async (method, path, issue) => {
    const body = method === 'GET' ? null : JSON.stringify({ name: 'n', colour: 'red' })
    const answer = await fetch(`${emulator.url}${path}`, { method, body, headers: { authorization } })
    expect([answer.status, await answer.text()]).toEqual([418, issue])
  })

  let emulator: TrelloEmulator
  let client: ReturnType<typeof createTrelloClient>
  beforeAll(async () => {
    emulator = await startTrello(trelloWith(['To do'], ['one']))
    client = createTrelloClient({
      host: `${emulator.url}/1`,
      apiKey: key,
      apiToken: token,
      headers: { authorization },
    })
  })
  afterAll(() => emulator?.close())

  test('a card that the client creates is listed', async () => {
    const [list] = await client.boards.getBoardLists({ id: 'board001', filter: 'open' })
    const made = await client.cards.createCard({
      idList: list?.id ?? '',
      name: 'n',
      desc: 'd',
      pos: 'bottom',
    })
    const all = await client.boards.getBoardCards({ id: 'board001' })
    expect(all.find(({ id }) => id === made.id)).toMatchObject({ name: 'n', desc: 'd' })
    expect(await client.cards.getCard({ id: made.id, list: true })).toMatchObject({ id: made.id })
  })

  test('a comment that the client makes is listed', async () => {
    const made = await client.cards.createCardComment({ id: 'c0000256', text: 't' })
    const actions = await client.cards.getCardActions({ id: 'c0000256', filter: 'commentCard' })
    expect(actions.map(({ id }) => id)).toEqual([made.id])
  })

  test('a file that is uploaded is listed, and the upload is answered in the form of the list', async () => {
    const form = new FormData()
    form.append('name', 'a.txt')
    form.append('file', new Blob(['text']), 'a.txt')
    const path = `${emulator.url}/1/cards/c0000256/attachments`
    const answer = await fetch(path, { method: 'POST', body: form, headers: { authorization } })
    const made = (await answer.json()) as { id: string }
    const files = await client.cards.getCardAttachments({ id: 'c0000256' })
    expect(files).toEqual([expect.objectContaining({ id: made.id, name: 'a.txt' })])
    expect(Object.keys(made).toSorted()).toEqual(Object.keys(files[0] ?? {}).toSorted())
  })

  test('a card that the client moves to another board and deletes there is listed in the actions', async () => {
    const { id } = await client.cards.createCard({ idList: '000000000000000000000010', name: 'moves' })
    await client.cards.updateCard({ id, idList: listElsewhere.id, idBoard: listElsewhere.idBoard })
    const board = await client.boards.getBoardCards({ id: 'board001' })
    expect(board.map((each) => each.id)).not.toContain(id)
    await client.cards.deleteCard({ id })
    const typesAt = async (boardId: string) => {
      const actions = await client.boards.getBoardActions({ boardId, limit: 1000 })
      return actions.filter(({ data }) => data['card']?.id === id).map(({ type }) => type)
    }
    expect(await typesAt('board001')).toEqual(['moveCardFromBoard', 'createCard'])
    expect(await typesAt('board009')).toEqual(['deleteCard', 'moveCardToBoard'])
  })

  test('a board is shown', async () => {
    expect(await client.boards.getBoard({ id: 'board001' })).toMatchObject({ name: 'Board' })
  })

  test('all cards of a board and the account of the credential are shown', async () => {
    const all = await client.boards.getBoardCardsByFilter({ id: 'board001', filter: 'all' })
    expect(all.map(({ name }) => name)).toContain('one')
    expect(await client.members.getMember({ id: 'me' })).toMatchObject({ username: 'bot' })
  })
})

describe('the stand-in for Slack', () => {
  /*
   * Tests that the stand-in for Slack, and our schemas for Slack's answers, agree with Slack's published description.
   */

  let slack: Emulator
  beforeAll(async () => {
    slack = await startSlack()
  })
  afterAll(() => slack?.close())

  test.each([
    ['chat.postMessage', 'channel=C1&text=t&colour=red', 'chat.postMessage: no argument colour'],
    ['chat.postMesage', 'channel=C1&text=t', 'no method chat.postMesage'],
  ])('%s with %s is refused: Slack describes no such request', async (method, body, issue) => {
    const headers = {
      authorization: `Bearer ${emulatorToken}`,
      'content-type': 'application/x-www-form-urlencoded',
    }
    const answer = await fetch(`${slack.url}/${method}`, { method: 'POST', headers, body })
    expect([answer.status, await answer.json()]).toEqual([418, { ok: false, error: issue }])
  })

  test.each<[string, z.ZodType]>([
    ['auth.test', ownAccount],
    ['chat.postMessage', madeMessage],
    ['chat.update', done],
    ['conversations.create', madeChannel],
    ['conversations.history', messages],
    ['conversations.invite', done],
    ['conversations.list', channels],
    ['conversations.open', aConversation],
    ['conversations.replies', messages],
    ['conversations.setPurpose', done],
  ])('the form of the answers of %s fits Slack’s own example', (method, form) => {
    expect(form.safeParse(exampleOf(method)).error).toBeUndefined()
  })

  test('the examples have the names that approvers see', () => {
    expect(exampleOf('conversations.info')).toMatchObject({ channel: { name: expect.any(String) } })
    const profile = { display_name: expect.any(String) }
    const user = { name: expect.any(String), real_name: expect.any(String), profile }
    expect(exampleOf('users.info')).toMatchObject({ user })
  })
})

describe('descriptions of Google', () => {
  const drive = described('drive.v3')
  const methodOf = (id: string): Method => drive.methods.find((each) => each.id === id) as Method

  function issues(
    method: Method,
    query: Record<string, string>,
    path: Record<string, string> = {},
  ): string[] {
    return issuesOfRequest(drive, method, { path, query: new URLSearchParams(query), body: undefined })
  }

  test.each([
    ['kind,files(id,name)', []],
    ['*', []],
    ['files/shortcutDetails/targetId,files.appProperties.countersign', []],
    ['kind,file(id)', ['no fields.file']],
    ['files(id,title)', ['no fields.files.title']],
    ['files/shortcutDetails(targetId,target)', ['no fields.files.shortcutDetails.target']],
    ['kind/id', ['no fields.kind.id']],
    ['files(id', ['no fields.']],
  ])('the mask %s has these unknown names: %j', (fields, wrong) => {
    expect(issues(methodOf('drive.files.list'), { fields })).toEqual(wrong)
  })

  test('a required parameter that is missing or empty is an issue', () => {
    const get = methodOf('drive.files.get')
    expect(issues(get, {}, { fileId: 'a' })).toEqual([])
    expect(issues(get, {}, { fileId: '' })).toEqual(['fileId is required'])
    const parameters = { q: { type: 'string', location: 'query', required: true } }
    const search: Method = { ...methodOf('drive.files.list'), parameters }
    expect(issues(search, {})).toEqual(['q is required'])
    expect(issues(search, { q: 'x' })).toEqual([])
  })
})
