import type { Json } from '../../../src/policy/types.ts'
import { startSlack } from '../../support/slack-emulator.ts'
import { described } from '../../support/slack-described.ts'
import { idsOf, named } from '../stand-in.ts'
import type { FaultService } from '../faults/service.ts'

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
  standIns: [
    {
      standIn: `${named('emulate')}, behind a check of our own`,
      checked: `Slack’s OpenAPI description of 2020, from \`${described.source.replace(' ', '` ')}: names of arguments of each request, and the fields that are read in its examples of answers, of ${idsOf(described.methods)}`,
      not: 'the forms of values in requests. Error codes, and the arguments `metadata` and `include_all_metadata`, were compared by hand with docs.slack.dev',
    },
  ],
  assumptions: [
    {
      what: 'A message to `#name` goes to the channel that has this name now, and to none that had it before.',
      page: null,
      withoutPage:
        'The page of `chat.postMessage` allows a name, and says nothing of former names. The answer names the channel.',
    },
    {
      what: 'Slack takes about one message a second in each channel. More is answered with 429 and a pause to wait.',
      page: 'https://docs.slack.dev/apis/web-api/rate-limits',
    },
    {
      what: 'Each method has a limit of its own, from 20 to 100 requests in a minute, for apps of one company or of the Marketplace. Other apps may read the history of a channel once in a minute.',
      page: 'https://docs.slack.dev/apis/web-api/rate-limits',
    },
    {
      what: 'The history of a channel and the replies of a thread show a new message within 60 s of its request.',
      page: null,
      withoutPage: 'Slack names no delay of the history.',
    },
  ],
}
