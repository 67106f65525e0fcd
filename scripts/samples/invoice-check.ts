import { caughtMail } from '../../src/demo/story.ts'
import { mustHold } from '../../src/demo/show.ts'
import { answers } from './data.ts'
import { requester, runToEnd, saveWorkflow, upload, type Session } from './session.ts'

const label = 'finance'
const to = 'bookkeeping@larkspur.example'

/**
 * An invoice and its order are uploaded. A language model compares them. The finding is saved in memory, and is mailed
 * after a person has approved the mail.
 */
export async function invoiceCheck(session: Session): Promise<void> {
  const { client, stack, tell, changes, services, tag } = session
  tell.step('Invoice check: two uploads are compared by a language model, and the finding is mailed')
  const number = `2041-${tag}`
  const subject = `Invoice ${number}`
  await changes.save('rules', {
    name: `sample ${tag}: finance leaves with a second person`,
    verdict: 'require_approval',
    tools: ['mail_send'],
    labels: { any_of: [label] },
    params: [{ param: 'subject', operator: 'equals', value: subject }],
  })
  const memory = `/memory/invoices%2F${number}`
  // The first DELETE removes the value; the second removes the labels of the key.
  for (const _ of [1, 2]) changes.onUndo(() => client.ask('admin', 'DELETE', memory))
  const files: string[] = []
  for (const name of ['invoice.csv', 'order.txt'])
    files.push(await upload(session, new URL(`../../samples/uploads/${name}`, import.meta.url), label))
  const workflow = await saveWorkflow(session, 'invoice-check')
  const { run, heldSteps } = await runToEnd(session, workflow, { inputs: { number, to }, files })
  mustHold(heldSteps.includes('send'), `the rule held the mail, because the uploads are \`${label}\``)
  const prompt = services.prompts().at(-1) ?? ''
  for (const part of ['pump seal PS-7,10,12.50,125.00', '8 pump seals PS-7'])
    mustHold(prompt.includes(part), 'the model read the texts of both files')

  const finding = answers['Check this invoice']
  const kept = await client.get<{ value: unknown }>(requester, 'GET', memory)
  mustHold((kept.value as { finding?: unknown }).finding === finding, 'the memory has the finding')
  const [mail, ...more] = caughtMail(stack.mailDir).filter((each) => each.subject === subject)
  mustHold(mail !== undefined, `the mail is in \`${stack.mailDir}\` (with SMTP_URL set it went elsewhere)`)
  mustHold(more.length === 0 && mail.to === to, `it went to ${to}, once`)
  const { message_id: id } = run.outputs['send'] as { message_id: string }
  mustHold(mail.messageId === id, 'it is the mail that the run reports')
  tell.line(`mail ${id} to ${to}`)
}
