import type { Json } from '../../../src/policy/types.ts'
import { emulatorToken, startEmulator } from '../../support/emulators.ts'
import { unknown } from '../faults/rows.ts'
import { named } from '../stand-in.ts'
import type { FaultService } from '../faults/service.ts'

const refusing = (status: number, name: string) => ({
  status,
  body: JSON.stringify({ statusCode: status, name, message: 'secret words' }),
})

export const mailCredential = (base_url: string) => ({
  provider: 'resend',
  api_key: emulatorToken,
  from: 'Larkspur <desk@larkspur.example>',
  base_url,
})

interface Held {
  readonly id: string
  readonly text: string
}

/** Resend knows the key of a call, so a call whose answer was lost is sent again. */
export const mail: FaultService = {
  name: 'mail',
  start: () => startEmulator('resend'),
  credential: mailCredential,
  place: 'ana@larkspur.example',
  repeat: 'keyed',
  tools: {
    mail_send: {
      params: (text, place) => ({ to: place, subject: 'a mail', text }),
      async made(ask, text, place): Promise<Json[]> {
        const { data } = (await ask('GET', '/emails')) as unknown as { data: Held[] }
        return data
          .filter((each) => each.text === text)
          .map(({ id }) => ({ message_id: id, accepted: [place] }))
      },
      // Resend never says that it has not sent the mail.
      differs: {
        'the connection is cut before, each time': unknown(0),
        '503 comes back each time': unknown(0),
      },
    },
  },
  isWrite: (method, path) => method === 'POST' && path === '/emails',
  emptyList: { status: 200, body: '{"data":[]}' },
  cannotLook: { status: 404 },
  refusals: {
    'the key was deleted': [refusing(403, 'invalid_api_key'), 'connection_expired'],
    '401 comes back': [{ status: 401 }, 'connection_expired'],
    'the domain is not verified': [refusing(403, 'validation_error'), 'mail_forbidden'],
    'the mail is refused': [refusing(422, 'missing_required_field'), 'mail_refused'],
    'the quota of the day is used up': [refusing(429, 'daily_quota_exceeded'), 'mail_quota_exceeded'],
  },
  codes: { rateLimited: 'mail_rate_limited', redirected: 'mail_redirected' },
  standIns: [
    {
      standIn: named('emulate'),
      checked: 'nothing',
      not: 'all of it',
    },
  ],
  assumptions: [
    {
      what: 'A request with a known `Idempotency-Key` gets the first answer for 24 hours, and sends nothing.',
      page: 'https://resend.com/docs/dashboard/emails/idempotency-keys',
    },
    {
      what: 'A team may send 2 requests in a second. More is answered with 429 and a pause to wait.',
      page: 'https://resend.com/docs/api-reference/introduction',
    },
    {
      what: 'A request that was refused or limited leaves no key: the next one with this key sends the mail.',
      page: null,
      withoutPage:
        'The page on keys describes requests that were carried out. If it does not hold, the refusal comes back and no mail is sent.',
    },
    {
      what: 'A key that may only send is answered by 401 `restricted_api_key` where it lacks the right, and a wrong key is not.',
      page: 'https://resend.com/docs/api-reference/errors',
    },
  ],
}
