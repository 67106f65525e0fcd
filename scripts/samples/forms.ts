import type { Person } from '../../src/demo/client.ts'
import { mustHold } from '../../src/demo/show.ts'
import { caughtMail } from '../../src/demo/story.ts'
import { expenses, holidays } from './data.ts'
import { followToEnd, requester, saveWorkflow, type Session } from './session.ts'

/* Workflows that a person starts with the form of the console. */

/** A message becomes a row with a number: the model answers in fields. */
export async function expense(session: Session): Promise<void> {
  const { tell, services } = session
  tell.step('Expense: a message in a form becomes a row, with the amount as a number')
  const workflow = await saveWorkflow(session, 'expense')
  const id = await startByForm(session, workflow, { message: expenses.message, sheet: expenses.id })
  const { run } = await followToEnd(session, id)
  const rows = services.google.spreadsheets.get(expenses.id)?.sheets[0]?.rows ?? []
  mustHold(
    rows.length === 2 && rows[1]?.[1] === 23.4,
    'the sheet has one row more, and its amount is a number',
  )
  tell.line(`saved: ${(run.result as { saved: string }).saved}`)
}

/** A rule holds the row until a second person approves it. */
export async function holidayRequest(session: Session): Promise<void> {
  const { tell, services, changes, tag } = session
  tell.step('Holiday: a form asks for days off, and a second person approves the row')
  const params = [{ param: 'spreadsheet', operator: 'equals', value: holidays.id }]
  await changes.save('rules', {
    name: `sample ${tag}: holidays need a second person`,
    verdict: 'require_approval',
    tools: ['sheets_append'],
    params,
  })
  const workflow = await saveWorkflow(session, 'holiday-request')
  const inputs = {
    name: 'Ines Verhoeven',
    first_day: '2026-12-21',
    last_day: '2026-12-31',
    sheet: holidays.id,
  }
  const id = await startByForm(session, workflow, inputs)
  const { heldSteps, run } = await followToEnd(session, id)
  mustHold(heldSteps.includes('enter'), 'the row waited for a second person')
  const rows = services.google.spreadsheets.get(holidays.id)?.sheets[0]?.rows ?? []
  mustHold(rows.length === 2 && rows[1]?.[0] === inputs.name, 'the sheet has the holiday once')
  mustHold((run.result as { answer: string }).answer === 'entered', 'the run says that it was entered')
  const [message = ''] = await services.messages('#releases')
  tell.line(`#releases ${message}`)
}

/** A colleague answers three questions: one on its page, two through the API. Each answer takes its own branch. */
export async function refund(session: Session): Promise<void> {
  const { client, stack, tell, services, tag } = session
  tell.step('Refund: a person chooses on a form, and one of three branches runs')
  const workflow = await saveWorkflow(session, 'refund')
  const to = 'tom@reyes.example'
  const decide = async (order: string, action: string, message: string): Promise<void> => {
    const inputs = { email: to, order, decider: stack.bootstrap.users.approver.email }
    const fields = [
      ['decision', 'answer'],
      ['answer.action', action],
      ['answer.message', message],
    ]
    const { run } = await followToEnd(session, await startByForm(session, workflow, inputs), async (id) => {
      if (action === 'refuse') await sendForm(session, 'approver', `/console/approvals/${id}`, fields)
      else await client.get('approver', 'POST', `/approvals/${id}/answer`, { answer: { action, message } })
    })
    mustHold((run.result as { answer: string }).answer === action, 'the run has the answer')
    const branches = run.steps.slice(2).filter(({ status }) => status === 'completed')
    mustHold(branches.map(({ id }) => id).join() === action, 'only the branch of the answer runs')
  }
  for (const [number, action] of ['refund', 'refuse'].entries()) {
    const order = `471${number}-${tag}`
    await decide(order, action, 'It was used.')
    const [mail, ...more] = caughtMail(stack.mailDir).filter(({ subject }) => subject === `Order ${order}`)
    mustHold(mail?.to === to && more.length === 0, 'the customer gets one mail')
    tell.line(`mail to ${mail.to}: ${mail.subject}`)
  }
  await decide(`4712-${tag}`, 'investigate', 'Who packed it?')
  const [message = ''] = await services.messages('#releases')
  mustHold(message.includes('needs a closer look: Who packed it?'), 'the channel gets the answer')
  tell.line(`#releases ${message}`)
}

/** Returns the id of the run that the form starts. */
async function startByForm(
  session: Session,
  workflowId: string,
  inputs: Readonly<Record<string, string>>,
): Promise<string> {
  const fields = Object.entries(inputs).map(([name, value]) => [`inputs.${name}`, value])
  const path = `/console/workflows/${workflowId}/run`
  const location = await sendForm(session, requester, path, [['action', 'start'], ...fields])
  const id = /\/console\/runs\/(run_\w+)/.exec(location)?.[1]
  mustHold(id !== undefined, 'the form starts a run')
  return id
}

/** Fills in and sends the form of a page as the person's browser does. Returns the address to which it leads. */
async function sendForm(
  { stack }: Session,
  person: Person,
  path: string,
  fields: readonly string[][],
): Promise<string> {
  const { base_url: base, users } = stack.bootstrap
  const { email, password } = users[person]
  const origin = new URL(base).origin
  const signedIn = await fetch(`${base}/api/auth/sign-in/email`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', origin },
    body: JSON.stringify({ email, password }),
  })
  const cookie = signedIn.headers
    .getSetCookie()
    .map((line) => line.split(';', 1)[0])
    .join('; ')
  const address = `${base}${path}`
  const page = await (await fetch(address, { headers: { cookie } })).text()
  const valueOf = (name: string): string => new RegExp(`name="${name}" value="([^"]+)"`).exec(page)?.[1] ?? ''
  const form = [['token', valueOf('token')], ['once', valueOf('once')], ...fields]
  const sent = await fetch(address, {
    method: 'POST',
    headers: { cookie, origin, 'sec-fetch-site': 'same-origin' },
    body: new URLSearchParams(form),
    redirect: 'manual',
  })
  const location = sent.headers.get('location')
  mustHold(location !== null, `the form of ${path} is taken (it answers ${sent.status})`)
  return location
}
