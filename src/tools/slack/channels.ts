import type { LinkedAccount } from '../../governance/people/slack-accounts.ts'
import { defaultsOf } from '../../policy/tool-defaults.ts'
import { mostRequestMilliseconds, mostWaitMilliseconds } from '../kit/exchange.ts'
import { OutcomeUnknown, type ToolCall } from '../kit/executor.ts'
import { beforeSending, hasMark, markOf } from '../kit/marker.ts'
import type { FinderOf, ToolBody, ToolParams } from '../kit/params.ts'
import { slackOf, type Slack } from './client.ts'
import { SlackRefusal } from './errors.ts'
import { done, madeChannel, ownAccount, type Channel } from './forms.ts'
import { accountOf, approvedAccount, channelsCalled, isNewerThan, newNameOf } from './place.ts'

/*
 * A channel is made in three requests. The channel is created, its description gets the mark of the call, and the
 * person who runs the workflow is invited. The last two requests can be repeated. So a call that was interrupted
 * between the requests is completed when it is looked for.
 */

const defaults = defaultsOf.slack_create_channel

type Call = ToolCall<ToolParams<'slack_create_channel'>>
type Made = { readonly channel: string; readonly name: string; readonly invited: boolean }

export const createChannel: ToolBody<'slack_create_channel'> = async (call, context) => {
  const name = newNameOf(call.params.name)
  const { is_private = defaults.is_private } = call.params
  // People can enter a private channel only if they are invited. So a private channel needs the account of the person
  // to invite.
  const account = is_private
    ? await accountOf(call, context, 'a private channel')
    : await approvedAccount(call, context)
  const slack = await slackOf(call, context, 'slack_create_channel')
  await context.pointOfNoReturn()
  const made = await slack.write(madeChannel, (client) => client.conversations.create({ name, is_private }))
  try {
    return { output: await completed(slack, call, made.channel, account) }
  } catch {
    // The channel exists. The next attempt finds and completes it, or a person is asked.
    throw new OutcomeUnknown('the channel was created, but not everything after it is certain')
  }
}

/**
 * Writes the mark of the call into the channel's description, and invites the person. Ignores a final refusal by Slack,
 * because the channel exists. Throws ToolError for any other failure, because a later try can succeed.
 */
async function completed(
  slack: Slack,
  call: Call,
  { id, name }: Pick<Channel, 'id' | 'name'>,
  account: LinkedAccount | null,
): Promise<Made> {
  const purpose = `Created by a Countersign workflow (${markOf(call)})`
  await accepted(slack.complete(done, (client) => client.conversations.setPurpose({ channel: id, purpose })))
  const invited =
    account !== null &&
    (await accepted(
      slack.complete(done, (client) => client.conversations.invite({ channel: id, users: account.id })),
    ))
  return { channel: id, name, invited }
}

/**
 * Slack answers an invitation with these codes if the person is in the channel already. The reason is that somebody
 * else has invited the person, or that the connected token belongs to the person.
 */
const alreadyThere: ReadonlySet<string> = new Set(['already_in_channel', 'cant_invite_self'])

/**
 * Returns true if Slack has accepted the request, or if the person is in the channel already. Returns false if Slack
 * would refuse the request again. The new channel exists in all cases, so the call does not fail.
 */
async function accepted(request: Promise<unknown>): Promise<boolean> {
  try {
    await request
    return true
  } catch (error) {
    if (!(error instanceof SlackRefusal)) throw error
    return alreadyThere.has(error.slackCode)
  }
}

/** Slack's clock and ours differ by at most this many seconds. This limit is used only for channels without a mark. */
const smallSkew = 60
/** The request that makes the channel ends at most this many seconds after the point of no return. */
const mostSeconds = (mostWaitMilliseconds + mostRequestMilliseconds) / 1_000

/**
 * Finds the channel by its name, and completes it. Names are unique in a workspace. So if no channel has this name, the
 * call was not carried out.
 *
 * The call may have made its channel without a mark. People make channels without a mark too. So a channel without a
 * mark counts as the call's own only under two conditions. The connected account made the channel at the time of the
 * call, and the channel is private or public as the call asks.
 */
export const findChannel: FinderOf<'slack_create_channel'> = async (call, context, look) => {
  const sentAt = Date.now() / 1_000 - look.sentSecondsAgo
  const since = beforeSending(look).getTime() / 1_000
  const name = newNameOf(call.params.name)
  const { is_private: isPrivate = defaults.is_private } = call.params
  const slack = await slackOf(call, context, 'slack_create_channel')
  const listed = await channelsCalled(slack, name)
  if (listed === null) return { kind: 'unclear' }
  if (listed.length === 0) return { kind: 'absent' }
  const { user_id: self } = await slack.read(ownAccount, (client) => client.auth.test())
  const isOfThen = (created: number): boolean =>
    created >= sentAt - smallSkew && created <= sentAt + mostSeconds + smallSkew
  const isUnmarked = ({ created, creator, purpose, is_private }: Channel): boolean =>
    creator === self && purpose === '' && is_private === isPrivate && isOfThen(created)
  const found =
    listed.find(({ purpose }) => purpose.includes(markOf(call))) ?? listed.find((each) => isUnmarked(each))
  if (found === undefined) {
    // A channel belongs to somebody else if another call has made and marked it. A channel also belongs to somebody
    // else if it is more than an hour older than this call, because clocks differ by at most an hour (marker.ts). If
    // every channel of this name belongs to somebody else, the name was taken, and Slack has refused this call.
    const isOthers = ({ created, purpose, creator }: Channel): boolean =>
      created < since || (creator === self && hasMark(purpose))
    return { kind: listed.every(isOthers) ? 'absent' : 'unclear' }
  }
  const account = await context.tools.slackAccount(call)
  // If the account may have been linked after the call was sent, this account is not invited. Perhaps no approver has
  // seen the account.
  const invited = account !== null && isNewerThan(account, look) ? null : account
  return { kind: 'done', output: await completed(slack, call, found, invited) }
}
