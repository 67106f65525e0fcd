import {
  mostAttempts as mostChatAttempts,
  mostFailures as mostChatFailures,
} from '../src/activities/notify/send.ts'
import { usualMailDelay } from '../src/contract/mail-delay.ts'
import { codeMinutes, mostCodes, mostWrong } from '../src/governance/notifications/claims.ts'
import { mostSingleItems } from '../src/governance/notifications/plan-slack.ts'
import { mostRecipients } from '../src/governance/notifications/recipients.ts'
import {
  mostAttempts as mostMailAttempts,
  mostOfHour as mostMailsOfHour,
} from '../src/governance/notifications/send-mail.ts'
import { mostWaiting as mostWaitingMessages } from '../src/governance/webhooks/fan-out.ts'
import { attemptMilliseconds, mostDeliveries } from '../src/governance/webhooks/deliver.ts'
import { deliveriesPerMinute } from '../src/governance/limits/rates.ts'
import { mostCaughtUp } from '../src/governance/triggers/due-times.ts'
import { keptDays as keptFiringDays, keptFirings, keptHours } from '../src/governance/triggers/firings.ts'
import { mostRemembered, rememberedDays } from '../src/governance/triggers/poll.ts'
import { mostItems, mostStarted } from '../src/governance/triggers/poll-items.ts'
import { mostArmed, mostOfOrganization, mostOfWorkflow } from '../src/governance/triggers/triggers.ts'
import { keptDays, keptDeliveries } from '../src/governance/webhooks/upkeep.ts'
import { type Rows, count, numberAt, sameAt } from './limits-numbers.ts'

/* The limits of messages to people and to webhooks, and of triggers. */

export const messages: Rows = [
  ['people who get a message about one approval, in each channel', count(mostRecipients)],
  ['items of a step that have messages of their own in Slack', `${mostSingleItems}; more items share one`],
  ['tries of a message in Slack', count(mostChatAttempts)],
  [
    'codes that link a member’s Slack account',
    `${mostCodes} an hour; each ends after ${codeMinutes} minutes, or ${mostWrong} wrong tries`,
  ],
  [
    'looks for a message that may have arrived, and edits of one, until one succeeds',
    count(mostChatFailures),
  ],
  [
    '`delay_seconds` of mails',
    `${numberAt('MailPreferencesRequest.delay_seconds.maximum')}; ${usualMailDelay} unless a person chooses`,
  ],
  ['mails of an organization about what waits', `${mostMailsOfHour} an hour; the others wait`],
  ['tries of a mail that certainly did not leave', count(mostMailAttempts)],
  ['messages that wait for a webhook', count(mostWaitingMessages)],
  ['ended deliveries of a webhook that are kept', `${count(keptDeliveries)}, for ${keptDays} days`],
  ['messages to one webhook', `${mostDeliveries} a second`],
  ['`former_valid_seconds` of a secret', numberAt('SecretRotationRequest.former_valid_seconds.maximum')],
  ['time of one attempt at a message to a webhook', `${attemptMilliseconds / 1_000} seconds`],
  [
    'triggers of a workflow, and of an organization',
    `${count(mostOfWorkflow)}, ${count(mostOfOrganization)}`,
  ],
  ['people who have armed a trigger', count(mostArmed)],
  [
    '`cron` of a trigger',
    `${sameAt('ScheduleRequest.cron.maxLength', 'TriggerChanges.schedule.cron.maxLength')} characters`,
  ],
  [
    '`every_seconds` of a trigger',
    `${numberAt('ScheduleRequest.every_seconds.minimum')} to ${sameAt('ScheduleRequest.every_seconds.maximum', 'TriggerChanges.schedule.every_seconds.maximum')} (31 days)`,
  ],
  [
    '`every_seconds` of a poll',
    `${numberAt('PollRequest.every_seconds.minimum')} to ${sameAt('PollRequest.every_seconds.maximum', 'TriggerChanges.poll.every_seconds.maximum')} (31 days)`,
  ],
  [
    '`list`, `id` and `order` of a poll',
    `${numberAt('PollRequest.list.maxLength')}, ${numberAt('PollRequest.id.maxLength')} and ${numberAt('PollRequest.order.maxLength')} characters`,
  ],
  ['items of one poll, and new ones that start runs', `${count(mostItems)}, ${count(mostStarted)}`],
  [
    'items that a poll remembers',
    `${count(mostRemembered)}, for ${rememberedDays} days after they have left the list`,
  ],
  ['due times that fire late, or wait for an earlier run', count(mostCaughtUp)],
  [
    '`secret` of a trigger',
    `${numberAt('TriggerRequest.secret.minLength')} to ${sameAt('TriggerRequest.secret.maxLength', 'TriggerChanges.secret.maxLength')} characters`,
  ],
  ['messages to one trigger', `${count(deliveriesPerMinute)} a minute, of 1 MiB`],
  [
    'ended firings of a trigger that are kept',
    `${count(keptFirings)}, for ${keptFiringDays} days; more within ${keptHours} hours`,
  ],
]
