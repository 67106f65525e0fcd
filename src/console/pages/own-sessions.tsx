import { accountPath, ownSessionsPath } from '../../contract/pages.ts'
import { PostForm } from '../parts/layout.tsx'
import { Badge } from '../parts/state.tsx'
import { Time } from '../parts/time.tsx'
import { Words } from '../parts/words.tsx'
import type { Page } from '../visit.ts'
import { plainPage, type Refusal } from './plain.tsx'

/* `/console/account/sessions`: where a person is signed in. They end what is not theirs. */

/** As the sign-in library lists them, without the token. */
export interface OwnSession {
  readonly id: string
  readonly createdAt: string
  /** A session in use is renewed once a day. */
  readonly updatedAt: string
  readonly ipAddress?: string | null
  readonly userAgent?: string | null
  readonly openedWith?: string | null
}

const ways: Readonly<Record<string, string>> = {
  password: 'with the password',
  'password+totp': 'with the password and a code',
  'password+backup_code': 'with the password and a backup code',
  passkey: 'with a passkey',
  provider: 'by your company’s sign-in',
  'provider+factor': 'by your company’s sign-in, with a second factor',
}

const browsers = [
  ['Firefox', /Firefox\//],
  ['Edge', /Edg\//],
  ['Chrome', /Chrom(e|ium)\//],
  ['Safari', /Safari\//],
] as const
const systems = [
  ['Android', /Android/],
  ['iPhone or iPad', /iPhone|iPad/],
  ['Windows', /Windows/],
  ['macOS', /Mac OS X/],
  ['Linux', /Linux/],
] as const

/** "Firefox on Windows". What the browser says of itself can be false. */
export function deviceOf(agent: string | null | undefined): string {
  const named = (list: readonly (readonly [string, RegExp])[]) =>
    list.find(([, form]) => form.test(agent ?? ''))?.[0]
  const [browser, system] = [named(browsers), named(systems)]
  if (browser === undefined) return agent ? agent.slice(0, 60) : 'An unknown program'
  return system === undefined ? browser : `${browser} on ${system}`
}

export function ownSessionsPage(shown: {
  readonly sessions: readonly OwnSession[]
  /** The session that asks. */
  readonly own: string
  readonly token: string
  readonly now: Date
  readonly problem: Refusal | null
  readonly done: boolean
}): Page {
  const { sessions, own, token, now, problem, done } = shown
  return plainPage(
    'Where you are signed in',
    problem,
    <>
      {done ? (
        <p class="note" role="status">
          It has ended, and has to sign in again.
        </p>
      ) : null}
      <p>If you do not know one of them, end it, and set a new password.</p>
      <ul class="inbox">
        {sessions.map((session) => (
          <li class="item">
            <div class="item-words">
              <strong>
                <Words text={deviceOf(session.userAgent)} most={80} />
              </strong>{' '}
              {session.id === own ? <Badge tone="good" word="This one" /> : null}
              <div class="item-facts quiet small">
                <span>
                  Signed in <Time at={session.createdAt} now={now} /> {ways[session.openedWith ?? ''] ?? ''}
                </span>
                {session.ipAddress ? (
                  <span>
                    from <Words text={session.ipAddress} most={60} />
                  </span>
                ) : null}
                <span>
                  in use on the day of <Time at={session.updatedAt} now={now} />
                </span>
              </div>
            </div>
            {session.id === own ? null : (
              <PostForm action={ownSessionsPath} token={token}>
                <input type="hidden" name="session" value={session.id} />
                <button name="action" value="end" class="danger">
                  End it
                </button>
              </PostForm>
            )}
          </li>
        ))}
      </ul>
      {sessions.length < 2 ? null : (
        <PostForm action={ownSessionsPath} token={token}>
          <button name="action" value="end-others" class="danger">
            End all others
          </button>
        </PostForm>
      )}
      <p>
        <a href={accountPath}>Back to your account</a>
      </p>
    </>,
  )
}
