import { parse } from 'tldts'
import { clockTime } from '../policy/builtins.ts'
import { getTool } from '../tools/index.ts'
import { shortWords } from '../policy/readers/look-alikes.ts'

/*
 * Mails of the service say our sentences. What people and agents have chosen, such as names, stands between quotes, and
 * no mail program makes a link of it (docs/decisions/0271).
 */

export interface ServiceMail {
  readonly to: string
  readonly subject: MailSubject
  readonly text: MailText
}

declare const aboutWaiting: unique symbol

/** There is no other, so no subject contains a word of others. */
export type MailSubject =
  | 'Confirm your address'
  | 'You already have an account'
  | 'A new password'
  | 'An invitation to Countersign'
  | 'A passkey was added to your account'
  | 'A passkey was removed from your account'
  | 'A trigger was paused'
  | (string & { readonly [aboutWaiting]: true })

interface WaitingWords {
  readonly waits: 'decision' | 'outcome'
  /** `run`: a whole run. `agent`: a call of an agent, whose tool is named by others. */
  readonly what: 'run' | 'agent' | 'change' | 'changes' | 'call' | 'question'
  /** null for an agent's call. Only a tool of the catalogue is named. */
  readonly tool: string | null
  readonly count: number
  readonly isReminder: boolean
}

/** `3 calls of mail_send wait for your decision` */
export function waitingSubject({ waits, what, tool, count, isReminder }: WaitingWords): MailSubject {
  const known = tool !== null && getTool(tool) !== undefined ? tool : null
  const many = count > 1
  const call =
    known === null ? (many ? `${count} calls` : 'A call') : many ? `${count} calls of ${known}` : known
  const question = many ? `${count} questions` : 'A question'
  const subject = {
    run: 'A run',
    agent: 'A call of an agent',
    change: 'A change',
    changes: call,
    call,
    question,
  }[what]
  const verb = many && ['call', 'changes', 'question'].includes(what) ? 'wait' : 'waits'
  const wanted = what === 'question' ? 'answer' : what === 'changes' ? 'changes' : 'decision'
  const words =
    waits === 'decision'
      ? `${subject} ${verb} for your ${wanted}`
      : `What became of ${known ?? 'a call'} is unknown`
  return (isReminder ? `Reminder: ${words}` : words) as MailSubject
}

/** Resolves once the mail server has accepted the mail. */
export type SendMail = (mail: ServiceMail) => Promise<void>

/** Only the functions of this file make one, so it is always safe to send. */
export class MailText {
  readonly plain: string
  private constructor(plain: string) {
    this.plain = plain
  }

  /** mailText`Workflow: ${name}`: the template is our own sentence. A text is quoted, a list becomes lines. */
  static of(
    sentence: TemplateStringsArray,
    ...values: readonly (string | number | MailText | readonly MailText[])[]
  ): MailText {
    return new MailText(String.raw({ raw: sentence }, ...values.map(shownIn)))
  }

  /** To a page of this service, at its public address. */
  static link(base: string, path: string): MailText {
    return new MailText(`${base}${path}`)
  }

  /** `24 Nov 2026, 10:30 (Europe/Berlin)`. Without a zone, in UTC. */
  static time(at: Date, timeZone: string | null): MailText {
    const zone = timeZone ?? 'UTC'
    return new MailText(`${clockTime(at, zone)} (${zone})`)
  }

  /** Confirmed, so it stands there as it is, unless a mail program could take its first part for a link. */
  static address(email: string): MailText {
    const [, local = ''] = plainAddress.exec(email) ?? []
    const isPlain = local !== '' && !/^www\./i.test(local) && parse(local).isIcann !== true
    return new MailText(isPlain ? email : quoted(email))
  }

  /** Ours, with something of others in backticks. */
  static sentence(text: string): MailText {
    return new MailText(withoutLinks(shortWords(text, mostOfName)))
  }
}

export const mailText = MailText.of

const plainAddress =
  /^((?=.{1,64}@)[a-z0-9_+-]+(?:\.[a-z0-9_+-]+)*)@(?=.{1,253}$)[a-z0-9-]+(?:\.[a-z0-9-]+)+$/i

const mostOfName = 200

function shownIn(value: string | number | MailText | readonly MailText[]): string {
  if (typeof value === 'string') return quoted(value)
  if (typeof value === 'number') return `${value}`
  return value instanceof MailText ? value.plain : value.map(({ plain }) => plain).join('\n')
}

/** Without them, a name cannot end its own quotes. */
const doubleQuotes = /["“”„‟″‶❝❞〝〞〟＂]/gu

const quoted = (text: string): string =>
  `“${withoutLinks(shortWords(text, mostOfName)).replaceAll(doubleQuotes, "'")}”`

const phoneNumber = /\p{Nd}(?:[\s()./\u2010-\u2015-]{0,3}\p{Nd}){6,}/gu
const isoDate = /^\d{4}-\d\d-\d\d$/

/** Brackets as in `example[.]org`, also around look-alikes. Some mail programs ignore invisible characters. */
function withoutLinks(text: string): string {
  return text
    .replaceAll(phoneNumber, (found) =>
      isoDate.test(found)
        ? found
        : found.replaceAll(/\P{Nd}+/gu, '[$&]').replaceAll(/\p{Nd}{3}(?=\p{Nd})/gu, '$&[]'),
    )
    .replaceAll(/[.。．｡․﹒](?=[^\s\]])/gu, '[.]')
    .replaceAll(/[:：﹕꞉∶](?=\S)/gu, '[:]')
    .replaceAll(/[@＠﹫]/gu, '[@]')
    .replaceAll(/[/\\]{2,}/g, '[$&]')
    .replaceAll('<', '‹')
    .replaceAll('>', '›')
}
