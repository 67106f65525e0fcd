import { LLMock } from '@copilotkit/aimock'
import { emulatorToken, startEmulator, type Emulator } from '../../test/support/emulators.ts'
import { startFaultProxy, type FaultProxy } from '../../test/support/fault-proxy.ts'
import { googleCredential, startGoogle, type GoogleState } from '../../test/support/google/emulator.ts'
import { imported } from '../../test/support/google/docs.ts'
import { jiraCredential, jiraWith, startJira } from '../../test/support/jira-emulator.ts'
import { askSlack, startSlack } from '../../test/support/slack-emulator.ts'
import {
  startTrello,
  trelloCredential,
  trelloWith,
  type TrelloState,
} from '../../test/support/trello-emulator.ts'
import {
  answers,
  board,
  channel,
  draft,
  expenses,
  holidays,
  issues,
  project,
  pulls,
  repo,
  spreadsheet,
  tickets,
} from './data.ts'

/* The stand-ins of the services that the samples use, with their first data. */

export interface Issue {
  readonly number: number
  readonly title: string
}

export interface SentMail {
  readonly id: string
  readonly to: readonly string[]
  readonly subject: string
  readonly text: string
}

interface Comment {
  readonly body: string
  readonly html_url: string
}

export interface Services {
  /** The proxy between Countersign and GitHub's stand-in. */
  readonly proxy: FaultProxy
  /** The open issues in GitHub's stand-in. */
  issues(): Promise<Issue[]>
  comments(issue: number): Promise<Comment[]>
  /** The texts in a channel of Slack's stand-in, the newest first. */
  messages(channel: string): Promise<string[]>
  channelId(channel: string): Promise<string>
  /** The data in Google's stand-in. `trello` and `mails` return the data in the stand-ins for Trello and Resend. */
  readonly google: GoogleState
  trello(): TrelloState
  mails(): Promise<readonly SentMail[]>
  /** The proxy between Countersign and Resend's stand-in. */
  readonly mailProxy: FaultProxy
  /** The address of Jira's stand-in. In a real installation the operator sets this address. */
  readonly jiraUrl: string
  /** The prompts that the model has received so far, in order. */
  prompts(): string[]
  /**
   * The credentials that all samples share. Each key is the name of a tool, and the credential is for the service of
   * this tool.
   */
  readonly credentials: Readonly<
    Record<
      'github_create_issue' | 'slack_send_message' | 'llm_generate' | 'docs_read' | 'trello_create_card',
      object
    >
  >
  readonly jiraCredential: object
  readonly mailCredential: object
  close(): Promise<void>
}

export async function startServices(): Promise<Services> {
  const closing: (() => Promise<unknown>)[] = []
  const close = async (): Promise<void> => {
    await Promise.all(closing.splice(0).map((each) => each()))
  }
  try {
    return { ...shown(await startAll(closing)), jiraCredential, close }
  } catch (error) {
    await close()
    throw error
  }
}

/**
 * Starts every stand-in and fills it with its first data. For each stand-in, adds a function to `closing` that ends the
 * stand-in.
 */
async function startAll(closing: (() => Promise<unknown>)[]) {
  const started = async <Started extends Pick<Emulator, 'close'>>(
    starting: Promise<Started>,
  ): Promise<Started> => {
    const one = await starting
    closing.push(() => one.close())
    return one
  }
  const github = await started(startEmulator('github', firstRepo))
  const proxy = await started(startFaultProxy(github.url))
  const slack = await started(startSlack({ channels: [{ name: channel.slice(1) }] }))
  const model = await startModel()
  closing.push(() => model.stop())
  const google = await started(startGoogle())
  fillGoogle(google.state)
  const trello = await started(startTrello(trelloWith([board.list, 'Done'])))
  const jira = await started(startJira(jiraWith([project], tickets)))
  const resend = await started(startEmulator('resend'))
  const mailProxy = await started(startFaultProxy(resend.url))
  await fillGithub(github.url)
  return { github, proxy, slack, model, google, trello, jira, resend, mailProxy }
}

/** Returns functions that read the data in the stand-ins, and the credentials for the stand-ins. */
function shown({
  github,
  proxy,
  slack,
  model,
  google,
  trello,
  jira,
  resend,
  mailProxy,
}: Awaited<ReturnType<typeof startAll>>): Omit<Services, 'jiraCredential' | 'close'> {
  return {
    proxy,
    issues: () => askGithub<Issue[]>(github.url, 'GET', 'issues?state=open&per_page=100'),
    comments: (issue) => askGithub<Comment[]>(github.url, 'GET', `issues/${issue}/comments?per_page=100`),
    messages: (name) => messagesIn(slack.url, name),
    channelId: async (name) => (await channelIn(slack.url, name)) ?? '',
    google: google.state,
    trello: () => trello.state(),
    mails: () => mailsAt(resend.url),
    mailProxy,
    jiraUrl: jira.url,
    prompts: () =>
      model
        .getRequests()
        .filter(({ path }) => path.endsWith('/chat/completions'))
        .map(({ body }) => promptOf(body)),
    credentials: {
      github_create_issue: { token: emulatorToken, base_url: proxy.url },
      slack_send_message: { token: emulatorToken, base_url: slack.url },
      llm_generate: { provider: 'openai', api_key: 'any', model: 'sample', base_url: `${model.url}/v1` },
      docs_read: googleCredential(google.url),
      trello_create_card: { ...trelloCredential, base_url: trello.url },
    },
    mailCredential: {
      provider: 'resend',
      api_key: emulatorToken,
      from: 'Larkspur <service@larkspur.example>',
      base_url: mailProxy.url,
    },
  }
}

const firstRepo = {
  users: [{ login: 'admin' }],
  orgs: [{ login: 'larkspur' }],
  repos: [{ owner: 'larkspur', name: 'pump-control', auto_init: true }],
}

async function startModel(): Promise<LLMock> {
  const model = new LLMock({ port: 0, logLevel: 'silent' })
  for (const [part, content] of Object.entries(answers)) model.onMessage(part, { content })
  await model.start()
  return model
}

function fillGoogle(state: GoogleState): void {
  state.documents.set(draft.id, imported(draft.id, draft.title, draft.text))
  for (const { id, title, head } of [spreadsheet, expenses, holidays])
    state.spreadsheets.set(id, {
      title,
      sheets: [{ sheetId: 0, title: 'Sheet1', rows: [[...head]] }],
      metadata: [],
    })
}

async function channelIn(slack: string, name: string): Promise<string | undefined> {
  const { channels } = await askSlack(slack, 'conversations.list', {})
  return channels.find((each) => `#${each.name}` === name)?.id
}

async function messagesIn(slack: string, name: string): Promise<string[]> {
  const id = await channelIn(slack, name)
  if (id === undefined) return []
  const { messages } = await askSlack(slack, 'conversations.history', { channel: id })
  return messages.map(({ text }) => text)
}

async function mailsAt(resend: string): Promise<readonly SentMail[]> {
  const headers = { authorization: `Bearer ${emulatorToken}` }
  const answer = await fetch(`${resend}/emails`, { headers })
  return ((await answer.json()) as { data: SentMail[] }).data
}

/** Returns the user's message from `body`, which is a request in the format of OpenAI's API. */
function promptOf(body: unknown): string {
  const { messages } = body as { messages: readonly { role: string; content: unknown }[] }
  const content = messages.find(({ role }) => role === 'user')?.content
  return typeof content === 'string' ? content : JSON.stringify(content)
}

async function fillGithub(url: string): Promise<void> {
  for (const issue of issues) await askGithub(url, 'POST', 'issues', issue)
  for (const { title, isMerged } of pulls) {
    const { number } = await askGithub<Issue>(url, 'POST', 'pulls', { title, head: 'change', base: 'main' })
    if (isMerged) await askGithub(url, 'PUT', `pulls/${number}/merge`, {})
    else await askGithub(url, 'PATCH', `pulls/${number}`, { state: 'closed' })
  }
}

async function askGithub<T>(url: string, method: string, path: string, body?: object): Promise<T> {
  const answer = await fetch(`${url}/repos/${repo}/${path}`, {
    method,
    headers: { authorization: `Bearer ${emulatorToken}`, 'content-type': 'application/json' },
    body: body === undefined ? null : JSON.stringify(body),
  })
  if (!answer.ok) throw new Error(`the emulator of GitHub answers ${answer.status} to ${method} ${path}`)
  return (await answer.json()) as T
}
