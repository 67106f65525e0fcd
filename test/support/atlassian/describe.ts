import * as jira from 'jira.js/cloud'
import * as trello from 'trello.js'
import type { Operation } from './described.ts'

/*
 * Lists the requests to Jira and Trello that Countersign and its tests send, as Atlassian's OpenAPI descriptions
 * describe them. The source is the code of jira.js and trello.js, because both libraries are generated from the
 * descriptions. The functions of the libraries are called with a client that sends nothing. This command writes the
 * lists into jira.json and trello.json:
 *
 *   node scripts/atlassian-descriptions.ts
 */

/** A request that a library passes to its client. */
interface Sent {
  readonly url: string
  readonly method?: string
  readonly searchParams?: object
  readonly body?: object
}
type Call = (client: never, parameters: never) => Promise<unknown>

const issue = { issueIdOrKey: '{}' }
const card = { id: '{}' }
const calls: Readonly<Record<'jira' | 'trello', readonly (readonly [Call, object])[]>> = {
  jira: [
    [jira.getCurrentUser, {}],
    [jira.getProject, { projectIdOrKey: '{}' }],
    [jira.createIssue, {}],
    [jira.getIssue, issue],
    [jira.searchAndReconsileIssuesUsingJqlPost, {}],
    [jira.getComments, issue],
    [jira.addComment, issue],
    [jira.getCommentsByIds, {}],
    [jira.addAttachment, { ...issue, attachments: { filename: 'a', content: new Blob(['a']) } }],
  ],
  trello: [
    [trello.getMember, { id: 'me' }],
    [trello.getBoard, card],
    [trello.getBoardLists, card],
    [trello.getBoardActions, { boardId: '{}' }],
    [trello.getBoardCards, card],
    [trello.getBoardCardsByFilter, { ...card, filter: 'all' }],
    [trello.getCard, card],
    [trello.createCard, {}],
    [trello.updateCard, card],
    [trello.deleteCard, card],
    [trello.getCardActions, card],
    [trello.createCardComment, card],
    [trello.getCardAttachments, card],
    [trello.createCardAttachment, card],
  ],
}
/** The beginning of each path. Trello's library leaves out the version of the API. */
const prefixes = { jira: '', trello: '/1' }

export async function describe(name: 'jira' | 'trello'): Promise<Operation[]> {
  const all: Operation[] = []
  for (const [call, parameters] of calls[name]) {
    const sent: Sent[] = []
    const client = {
      sendRequest: (request: Sent): Promise<object> => {
        sent.push(request)
        return Promise.resolve({})
      },
    }
    await call(client as never, parameters as never)
    const [request] = sent
    if (request === undefined) throw new Error(`${call.name} sends nothing`)
    const { url, method = 'GET', searchParams = {}, body = {} } = request
    all.push({
      id: call.name,
      method,
      path: `${prefixes[name]}${url}`,
      query: Object.keys(searchParams),
      body: body instanceof FormData ? [...body.keys()] : Object.keys(body),
    })
  }
  return all
}
