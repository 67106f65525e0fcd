import { createHmac } from 'node:crypto'
import { Webhook } from 'standardwebhooks'
import { mustHold } from '../../src/demo/show.ts'
import { loseOneAnswer } from './customer-mailing.ts'
import { answers, channel, question } from './data.ts'
import { connectTool, followToEnd, requester, saveWorkflow, type Session } from './session.ts'

/* Workflows that a message to a webhook starts. */

/** Slack posts a form for each command, and shows its sender every answer that is not 200 and empty. */
export async function slashCommand(session: Session): Promise<void> {
  const { tell, services } = session
  tell.step('Slash command: a signed message of Slack starts a run, and a model answers in the channel')
  for (const tool of ['slack_send_message', 'llm_generate'] as const)
    await connectTool(session, tool, services.credentials[tool], 'organization')
  const workflow = await saveWorkflow(session, 'slash-command')
  const secret = 'the signing secret of the app'
  const hook = await makeTrigger(session, workflow, {
    webhook: { verify: 'slack' },
    secret,
    inputs: { command: '{{ body.command }}', text: '{{ body.text }}', channel: '{{ body.channel_id }}' },
  })
  const before = (await services.messages(channel)).length
  const send = async (command: string, trigger_id: string): Promise<string> => {
    const fields = { command, text: question, channel_id: await services.channelId(channel), trigger_id }
    const body = new URLSearchParams(fields).toString()
    const at = Math.floor(Date.now() / 1_000)
    const signature = createHmac('sha256', secret).update(`v0:${at}:${body}`).digest('hex')
    const sent = await post(hook.webhook.url, body, {
      'content-type': 'application/x-www-form-urlencoded',
      'x-slack-request-timestamp': String(at),
      'x-slack-signature': `v0=${signature}`,
    })
    mustHold(sent.status === 200 && sent.text === '', `Slack gets 200 and no text (it gets ${sent.status})`)
    return newestRun(session, workflow, hook.id)
  }
  const asked = await send('/ask', '1.1')
  await followToEnd(session, asked)
  mustHold((await send('/ask', '1.1')) === asked, 'the same command again is the same run')
  await followToEnd(session, await send('/tell', '1.2'))
  const messages = (await services.messages(channel)).slice(0, -before || undefined)
  const wanted = [answers[question], 'I know only /ask and a question.']
  mustHold(
    messages.toSorted().join() === wanted.toSorted().join(),
    `the channel has one answer to each command (it has ${messages.join(' | ')})`,
  )
  tell.line(`${channel} ${answers[question]}`)
}

/** One run for each new user. The answer to one mail is lost, and only this mail is sent again. */
export async function welcomeSequence(session: Session): Promise<void> {
  const { tell, services } = session
  tell.step('Welcome: a new user gets three mails in a week, whose days are a second long here')
  await connectTool(session, 'mail_send', services.mailCredential, 'organization')
  const workflow = await saveWorkflow(session, 'welcome-sequence')
  const hook = await makeTrigger(session, workflow, {
    webhook: { verify: 'standard' },
    inputs: { name: '{{ body.data.name }}', email: '{{ body.data.email }}', day_seconds: 1 },
  })
  const requests = loseOneAnswer(session)
  const people = ['Bastian Krol', 'Yvonne Dekker']
  const addressOf = (name: string) => `${name.split(' ', 1)[0]?.toLowerCase()}@newcomer.example`
  const send = async (name: string): Promise<string> => {
    const body = JSON.stringify({ type: 'user.created', data: { name, email: addressOf(name) } })
    const id = `msg_${addressOf(name)}`
    const at = new Date()
    const sent = await post(hook.webhook.url, body, {
      'content-type': 'application/json',
      'webhook-id': id,
      'webhook-timestamp': String(Math.floor(at.getTime() / 1_000)),
      'webhook-signature': new Webhook(hook.secret ?? '').sign(id, at, body),
    })
    mustHold(sent.status === 202, `the message is taken (${sent.status} ${sent.text})`)
    return (JSON.parse(sent.text) as { run_id: string }).run_id
  }
  const runs = await Promise.all(people.map(send))
  mustHold(new Set([...runs, await send('Yvonne Dekker')]).size === 2, 'each person has one run')
  const ended = await Promise.all(runs.map((id) => followToEnd(session, id)))
  for (const [place, { run }] of ended.entries()) {
    const endedAt = (step: string) => Date.parse(run.steps.find(({ id }) => id === step)?.finished_at ?? '')
    mustHold(endedAt('tips') - endedAt('welcome') >= 3_000, 'the second mail came three days later')
    mustHold(endedAt('how') - endedAt('welcome') >= 7_000, 'the third mail came seven days later')
    const to = addressOf(people[place] ?? '')
    const mails = (await services.mails()).filter((mail) => mail.to.includes(to))
    const subjects = mails.map(({ subject }) => subject)
    mustHold(new Set(subjects).size === 3 && mails.length === 3, `${to} has each mail once`)
    tell.line(`mails to ${to}: ${subjects.toSorted().join(', ')}`)
  }
  mustHold(requests.sent === 7, 'one mail was sent again by itself')
}

interface Trigger {
  readonly id: string
  readonly secret: string | null
  readonly webhook: { readonly url: string }
}

/** Its runs act for a service account that is made for it. */
async function makeTrigger(
  { client, stack, tag }: Session,
  workflow: string,
  body: object,
): Promise<Trigger> {
  const accounts = `/organizations/${stack.bootstrap.organization_id}/service-accounts`
  const name = `sample ${tag}: ${workflow}`
  const account = await client.get<{ id: string }>('owner', 'POST', accounts, { name, role: 'member' })
  return client.get<Trigger>(requester, 'POST', `/workflows/${workflow}/triggers`, {
    name: 'incoming',
    service_account: account.id,
    version: 'latest',
    ...body,
  })
}

async function post(url: string, body: string, headers: Record<string, string>) {
  const answer = await fetch(url, { method: 'POST', headers, body })
  return { status: answer.status, text: await answer.text() }
}

/** A slash command is answered without a word about its run, so the firings name it. */
async function newestRun({ client }: Session, workflow: string, trigger: string): Promise<string> {
  const path = `/workflows/${workflow}/triggers/${trigger}/firings?limit=1`
  const { data } = await client.get<{ data: { run_id: string | null }[] }>(requester, 'GET', path)
  const runId = data[0]?.run_id ?? null
  mustHold(runId !== null, 'the message has started a run')
  return runId
}
