import type { Json } from '../../../src/policy/types.ts'
import { startSlack } from '../../support/slack-emulator.ts'
import type { FaultService } from './service.ts'

const refusing = (error: string) => ({ status: 200, body: JSON.stringify({ ok: false, error }) })

export const slack: FaultService = {
  name: 'slack',
  start: () => startSlack(),
  place: 'C000000001',
  live: { url: 'https://slack.com/api' },
  takesForms: true,
  tools: {
    slack_send_message: {
      params: (text, place) => ({ channel: place, text }),
      async made(ask, text, place): Promise<Json[]> {
        const listed = (await ask('POST', '/conversations.history', { channel: place, limit: 1_000 })) as {
          messages: { ts: string; text: string }[]
        }
        return listed.messages
          .filter((message) => message.text === text)
          .map(({ ts }) => ({ channel: place, ts }))
      },
    },
    slack_create_channel: {
      params: (text) => ({ name: text }),
      async made(ask, text): Promise<Json[]> {
        const listed = (await ask('POST', '/conversations.list', { limit: 1_000 })) as {
          channels: { id: string; name: string }[]
        }
        // The member of these tests has no linked account.
        return listed.channels
          .filter(({ name }) => name === text)
          .map(({ id, name }) => ({ channel: id, name, invited: false }))
      },
    },
  },
  isWrite: (_, path) => path === '/chat.postMessage' || path === '/conversations.create',
  emptyList: { status: 200, body: '{"ok":true,"channels":[],"messages":[]}' },
  cannotLook: refusing('missing_scope'),
  refusals: {
    'the token was revoked': [refusing('token_revoked'), 'connection_expired'],
    'a right is missing': [refusing('restricted_action'), 'slack_forbidden'],
    'a code comes back that nobody knows': [refusing('something_new'), 'slack_refused'],
  },
  codes: { rateLimited: 'slack_rate_limited', redirected: 'slack_redirected' },
}
