import { randomBytes } from 'node:crypto'
import type {
  PollSettings,
  ScheduleSettings,
  TriggerKind,
  TriggerSettings,
  WebhookSettings,
} from '../../db/schema/triggers.ts'
import type { JsonObject } from '../../policy/types.ts'
import { errorAt } from '../errors.ts'
import { validTimeZone } from '../runs/start/accept.ts'
import { newWebhookSecret } from '../webhooks/webhook-view.ts'
import { checkTimes, nextDue } from './due-times.ts'
import { requireSoundPoll } from './poll-settings.ts'

/* What a trigger is made of, and what each kind needs. */

export interface TriggerInput {
  readonly name: string
  readonly service_account: string
  readonly version: number | 'latest'
  readonly inputs: JsonObject
  readonly untrusted: boolean
  readonly schedule?: ScheduleSettings | undefined
  readonly webhook?: WebhookSettings | undefined
  readonly poll?: PollSettings | undefined
  /** The secret of a webhook. Default: a new one. */
  readonly secret?: string | undefined
}

export type TriggerChange = Partial<TriggerInput> & {
  readonly paused?: boolean | undefined
  /** A secret that was in use is replaced by a new one. */
  readonly new_secret?: boolean | undefined
}

export function settingsOf({ schedule, webhook, poll }: Partial<TriggerInput>): {
  kind: TriggerKind
  settings: TriggerSettings
} {
  if (schedule !== undefined) return { kind: 'schedule', settings: schedule }
  if (webhook !== undefined) return { kind: 'webhook', settings: webhook }
  if (poll !== undefined) return { kind: 'poll', settings: poll }
  throw errorAt('validation_error', '', 'give `schedule`, `webhook` or `poll`')
}

/** Throws `validation_error` for a field of another kind. */
export function requireKind(
  kind: TriggerKind,
  { schedule, webhook, poll, secret, new_secret: makes }: TriggerChange,
): void {
  const fields = { schedule: { schedule }, webhook: { webhook, secret, new_secret: makes }, poll: { poll } }
  const others = Object.entries(fields).flatMap(([of, own]) => (of === kind ? [] : Object.entries(own)))
  const [field] = others.flatMap(([name, value]) => (value === undefined ? [] : [name]))
  if (field === undefined) return
  throw errorAt('validation_error', field, `does not fit a trigger of the kind \`${kind}\`: leave it out`)
}

/** Throws `validation_error`. */
export function requireSound(kind: TriggerKind, settings: TriggerSettings, secret: string | null): void {
  if (kind === 'poll') return requireSoundPoll(settings as PollSettings)
  if (kind === 'schedule') {
    const schedule = settings as ScheduleSettings
    try {
      validTimeZone(schedule.time_zone)
    } catch (error) {
      throw errorAt('validation_error', 'schedule.time_zone', (error as Error).message)
    }
    if ((schedule.cron === null) === (schedule.every_seconds === null)) {
      const both = schedule.cron === null ? '' : ', not both'
      throw errorAt('validation_error', 'schedule', `give \`cron\` or \`every_seconds\`${both}`)
    }
    if (schedule.catch_up === 'all' && schedule.overlap === 'skip')
      throw errorAt(
        'validation_error',
        'schedule.overlap',
        'what catches up would skip itself: choose `queue` or `allow`',
      )
    checkTimes(schedule, new Date())
    return
  }
  if ((settings as WebhookSettings).verify !== 'standard') return
  const bytes = /^whsec_([A-Za-z0-9+/]+={0,2})$/.exec(secret ?? '')?.[1]
  if (bytes === undefined || Buffer.from(bytes, 'base64').length < 24)
    throw errorAt(
      'validation_error',
      'secret',
      'is no secret of Standard Webhooks: `whsec_` and at least 24 bytes in base64',
    )
}

export function newSecret({ verify }: WebhookSettings): string {
  if (verify === 'slack')
    throw errorAt('validation_error', 'secret', 'give the signing secret of the Slack app: Slack made it')
  return verify === 'standard' ? newWebhookSecret() : randomBytes(32).toString('base64url')
}

export const firstDue = (kind: TriggerKind, settings: TriggerSettings, now: Date): Date | null =>
  ({ schedule: () => nextDue(settings as ScheduleSettings, now), webhook: () => null, poll: () => now })[
    kind
  ]()
