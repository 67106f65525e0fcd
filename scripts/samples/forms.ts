import { mustHold } from '../../src/demo/show.ts'
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

/** Fills in and sends the form as the requester's browser does. Returns the id of the run. */
async function startByForm(
  { stack }: Session,
  workflowId: string,
  inputs: Readonly<Record<string, string>>,
): Promise<string> {
  const { base_url: base, users } = stack.bootstrap
  const { email, password } = users[requester]
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
  const address = `${base}/console/workflows/${workflowId}/run`
  const page = await (await fetch(address, { headers: { cookie } })).text()
  const valueOf = (name: string): string => new RegExp(`name="${name}" value="([^"]+)"`).exec(page)?.[1] ?? ''
  const fields = Object.entries(inputs).map(([name, value]) => [`inputs.${name}`, value])
  const form = [['token', valueOf('token')], ['once', valueOf('once')], ['action', 'start'], ...fields]
  const sent = await fetch(address, {
    method: 'POST',
    headers: { cookie, origin, 'sec-fetch-site': 'same-origin' },
    body: new URLSearchParams(form),
    redirect: 'manual',
  })
  const id = /\/console\/runs\/(run_\w+)/.exec(sent.headers.get('location') ?? '')?.[1]
  mustHold(id !== undefined, `the form starts a run (it answers ${sent.status})`)
  return id
}
