import type { Json } from '../../../src/policy/types.ts'
import { emulatorToken, startEmulator } from '../../support/emulators.ts'
import { unknown } from './rows.ts'
import type { FaultService } from './service.ts'

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
}
