import { mustHold } from '../../src/demo/show.ts'
import { connectTool, runToEnd, saveWorkflow, upload, type Session } from './session.ts'

const contract = 'service'
const customers = [
  'anja@brandt-keller.example',
  'i.verhoeven@meander.example',
  'mh@vester-fjernvarme.example',
]

/**
 * A CSV file has one customer in each row. Each customer with the contract `service` gets a mail through a connection
 * to Resend. The answer to one request is lost. Countersign sends this mail again with the same idempotency key, so the
 * customer gets it only once.
 */
export async function customerMailing(session: Session): Promise<void> {
  const { tell, services, tag } = session
  tell.step('Mailing: rows of a CSV file become mails, and each customer gets one')
  await connectTool(session, 'mail_send', services.mailCredential)
  const requests = loseOneAnswer(session)
  const file = await upload(session, new URL('../../samples/customers.csv', import.meta.url), 'internal')
  const workflow = await saveWorkflow(session, 'customer-mailing')
  const subject = `Your service contract (${tag})`
  const inputs = { contract, subject, text: 'We visit you in May.' }
  const { run } = await runToEnd(session, workflow, { inputs, files: [file] })

  const mails = (await services.mails()).filter((mail) => mail.subject === subject)
  const reached = mails.flatMap(({ to }) => to).toSorted()
  mustHold(reached.join() === customers.join(), 'each customer with this contract got one mail, and no other')
  const reported = (run.outputs['send'] as readonly ({ message_id: string } | null)[]).flatMap(
    (each) => each?.message_id ?? [],
  )
  mustHold(
    reported.toSorted().join() ===
      mails
        .map(({ id }) => id)
        .toSorted()
        .join(),
    'the run reports these mails',
  )
  mustHold(requests.sent === customers.length + 1, 'one request was sent again')
  for (const { to, text } of mails) tell.line(`mail to ${to.join(', ')}: ${text.split('\n')[0]}`)
  tell.line('the answer to one of them was lost: it was sent again with its key, and Resend sent it once')
}

/**
 * Makes the proxy lose the answer to the next request that sends a mail. Returns an object that counts these requests.
 */
export function loseOneAnswer({ services }: Session): { sent: number } {
  const requests = { sent: 0 }
  services.mailProxy.choose = (method) => {
    if (method !== 'POST') return 'pass'
    requests.sent += 1
    return requests.sent === 1 ? 'lose answer' : 'pass'
  }
  return requests
}
