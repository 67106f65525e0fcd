import type { LinkedAccount } from '../../../governance/people/slack-accounts.ts'
import type { State } from '../executor.ts'
import type { StateReaderOf } from '../params.ts'
import { placeAt, revisionOf } from './place.ts'

const shown = (account: LinkedAccount | null): State => ({
  revision: revisionOf(account),
  fields: { 'Slack account of the requester': account?.id ?? 'none is linked' },
})

/** What approvers see of a message to `@me`: whose it becomes. */
export const readRecipient: StateReaderOf<'slack_send_message'> = async (call, { tools }) =>
  placeAt(call.params.channel).kind === 'requester'
    ? shown(await tools.slackAccount(call))
    : { revision: revisionOf(null) }

/** What approvers see of a new channel: who is invited. */
export const readInvited: StateReaderOf<'slack_create_channel'> = async (call, { tools }) =>
  shown(await tools.slackAccount(call))
