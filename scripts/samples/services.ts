import { LLMock } from '@copilotkit/aimock'
import { emulatorToken, startEmulator } from '../../test/support/emulators.ts'
import { startFaultProxy, type FaultProxy } from '../../test/support/fault-proxy.ts'
import { askSlack, startSlack } from '../../test/support/slack-emulator.ts'
import { answers, channel, issues, pulls, repo } from './data.ts'

/* The services of the samples on this machine: GitHub, Slack and a language model, with their first data. */

export interface Issue {
  readonly number: number
  readonly title: string
}

interface Comment {
  readonly body: string
  readonly html_url: string
}

export interface Services {
  /** Stands before GitHub. */
  readonly proxy: FaultProxy
  /** What GitHub holds. */
  issues(): Promise<Issue[]>
  /** Comments on an issue. */
  comments(issue: number): Promise<Comment[]>
  /** Texts that the channel holds. */
  messages(): Promise<string[]>
  /** What the model was asked, in order. */
  prompts(): string[]
  /** The credential of each service, by a tool of it. */
  readonly credentials: Readonly<Record<string, object>>
  close(): Promise<void>
}

export async function startServices(): Promise<Services> {
  const closing: (() => Promise<unknown>)[] = []
  const close = async (): Promise<void> => {
    await Promise.all(closing.splice(0).map((each) => each()))
  }
  try {
    const github = await startEmulator('github', {
      users: [{ login: 'admin' }],
      orgs: [{ login: 'larkspur' }],
      repos: [{ owner: 'larkspur', name: 'pump-control', auto_init: true }],
    })
    closing.push(() => github.close())
    const proxy = await startFaultProxy(github.url)
    closing.push(() => proxy.close())
    const slack = await startSlack({ channels: [{ name: channel.slice(1) }] })
    closing.push(() => slack.close())
    const model = new LLMock({ port: 0, logLevel: 'silent' })
    for (const [part, content] of Object.entries(answers)) model.onMessage(part, { content })
    await model.start()
    closing.push(() => model.stop())
    await fillGithub(github.url)
    return {
      proxy,
      issues: () => askGithub<Issue[]>(github.url, 'GET', 'issues?state=open&per_page=100'),
      comments: (issue) => askGithub<Comment[]>(github.url, 'GET', `issues/${issue}/comments?per_page=100`),
      async messages() {
        const { channels } = await askSlack(slack.url, 'conversations.list', {})
        const id = channels.find(({ name }) => `#${name}` === channel)?.id
        const { messages } = await askSlack(slack.url, 'conversations.history', { channel: id })
        return messages.map(({ text }) => text)
      },
      prompts: () =>
        model
          .getRequests()
          .filter(({ path }) => path.endsWith('/chat/completions'))
          .map(({ body }) => promptOf(body)),
      credentials: {
        github_create_issue: { token: emulatorToken, base_url: proxy.url },
        slack_send_message: { token: emulatorToken, base_url: slack.url },
        llm_generate: { provider: 'openai', api_key: 'any', model: 'sample', base_url: `${model.url}/v1` },
      },
      close,
    }
  } catch (error) {
    await close()
    throw error
  }
}

/** The user's message in a request of OpenAI's form. */
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
