import type { ComponentChildren } from 'preact'
import { secondFactorPath } from '../../contract/pages.ts'
import { Code, FirstCode, Password } from '../parts/form.tsx'
import { Island } from '../parts/island.tsx'
import { PostForm } from '../parts/layout.tsx'
import { QrCode } from '../parts/on-phone.tsx'
import { PasskeySignIn } from '../parts/passkey.tsx'
import { Badge } from '../parts/state.tsx'
import { Words } from '../parts/words.tsx'
import type { Page } from '../visit.ts'
import { Passkeys, type Factors } from './passkeys.tsx'
import { KeptMails, plainPage, type Refusal } from './plain.tsx'

export interface FactorVisit {
  readonly token: string
  readonly place: string
  readonly problem: Refusal | null
  readonly now: Date
}

/** A visit with a session that may change the second factors. */
export interface ChangingVisit extends FactorVisit {
  readonly factors: Factors
}

function ActionForm(props: { visit: FactorVisit; action: string; children?: ComponentChildren }) {
  const {
    visit: { token, place },
    action,
    children,
  } = props
  return (
    <PostForm action={secondFactorPath} token={token} class="fill">
      <input type="hidden" name="return" value={place} />
      <input type="hidden" name="action" value={action} />
      {children}
    </PostForm>
  )
}

const Back = ({ visit }: { visit: FactorVisit }) => (
  <p class="links">
    <a href={visit.place}>Back</a>
  </p>
)

const codesOfApp = 'Codes of an authenticator app'

export const beginFactorPage = (visit: ChangingVisit): Page =>
  plainPage('Second factor', visit.problem, [
    <p>
      With a second factor, nobody can sign in with your password alone. It is a passkey, or codes of an app;
      you can have both. The first one ends your sessions on other devices.
    </p>,
    <section class="stack" aria-labelledby="app">
      <h2 id="app">{codesOfApp}</h2>
      <p class="small">An app on your phone shows a new code each time you sign in with your password.</p>
      <ActionForm visit={visit} action="begin">
        <Password />
        <button class="primary">Continue</button>
      </ActionForm>
    </section>,
    <Passkeys shown={visit} />,
    <Back visit={visit} />,
  ])

/** A second factor may be added only after the confirmation. */
export const confirmFirstPage = (visit: FactorVisit): Page =>
  plainPage('Confirm your address first', visit.problem, [
    <p>A second factor can be added once your e-mail address is confirmed.</p>,
    <ActionForm visit={visit} action="mail">
      <button class="primary">Send the mail again</button>
    </ActionForm>,
    <Back visit={visit} />,
  ])

export const mailSentPage = (folder: string | null): Page =>
  plainPage('Check your mail', null, [
    <p>A mail with a link that confirms your address is on its way.</p>,
    <KeptMails folder={folder} />,
    <p>
      <a href={secondFactorPath}>Then come back here</a>
    </p>,
  ])

/** No later page shows these codes or this key again. */
export function enrolPage(visit: FactorVisit, uri: string, codes: readonly string[]): Page {
  const key = new URL(uri).searchParams.get('secret') ?? ''
  return plainPage('Second factor: codes of an app', visit.problem, [
    <ol class="steps">
      <li class="stack">
        <h2>Add the key to your authenticator app</h2>
        <QrCode text={uri} label="QR code with the key for your authenticator app" />
        <p class="small">
          On this phone? <a href={uri}>Open the app</a>, or type the key:{' '}
          <code>{key.replaceAll(/(.{4})(?=.)/g, '$1 ')}</code>
        </p>
      </li>
      <li class="stack">
        <h2>Keep the backup codes</h2>
        <p class="small">Each is good for one sign-in without the phone. They are shown only now.</p>
        <Codes codes={codes} />
      </li>
      <li class="stack">
        <h2>Type the code that the app shows</h2>
        <ActionForm visit={visit} action="verify">
          <FirstCode />
          <button class="primary">Turn it on</button>
        </ActionForm>
      </li>
    </ol>,
    <Back visit={visit} />,
  ])
}

const Codes = ({ codes }: { codes: readonly string[] }) => (
  <ul class="codes">
    {codes.map((code) => (
      <li>
        <code>{code}</code>
      </li>
    ))}
  </ul>
)

/** After a wrong first code. The app already has the key. */
export const enrolAgainPage = (visit: FactorVisit): Page =>
  plainPage('Second factor: codes of an app', visit.problem, [
    <p>The key is in your app. Type the code that the app shows now.</p>,
    <ActionForm visit={visit} action="verify">
      <FirstCode />
      <button class="primary">Turn it on</button>
    </ActionForm>,
    <p class="links">
      <a href={secondFactorPath}>Start again with a new key</a>
      <a href={visit.place}>Back</a>
    </p>,
  ])

/** For a person who has a second factor, but signed in without it. */
export const proveFactorPage = (visit: FactorVisit): Page =>
  plainPage('Second factor', visit.problem, [
    <p>This session was opened without your second factor.</p>,
    <ActionForm visit={visit} action="prove">
      <Code />
      <button class="primary">Continue</button>
    </ActionForm>,
    <Island of={PasskeySignIn} props={{ place: visit.place }} />,
    <Back visit={visit} />,
  ])

export interface KeyToConfirm {
  readonly id: string
  readonly name: string
  readonly last4: string
}

export function factorOnPage(visit: ChangingVisit, keys: readonly KeyToConfirm[]): Page {
  return plainPage('Second factor', visit.problem, [
    <p class="badges">
      <Badge tone="good" word="It is on" />
    </p>,
    keys.length === 0 ? null : (
      <section class="stack" aria-labelledby="keys">
        <h2 id="keys">API keys to confirm</h2>
        <p class="quiet small">
          These keys were made without a factor. The organization refuses them until you confirm them.
        </p>
        {keys.map(({ id, name, last4 }) => (
          <ActionForm visit={visit} action="key">
            <input type="hidden" name="key" value={id} />
            <p>
              <Words text={name} most={100} />
              {` (…${last4})`}
            </p>
            <button aria-label={`Confirm the key that ends in ${last4}`}>Confirm</button>
          </ActionForm>
        ))}
      </section>
    ),
    <Passkeys shown={visit} />,
    <section class="stack" aria-labelledby="app">
      <h2 id="app">{codesOfApp}</h2>
      {visit.factors.authenticator_app ? (
        <details>
          <summary>New backup codes</summary>
          <ActionForm visit={visit} action="codes">
            <Password />
            <button>Show new codes</button>
          </ActionForm>
        </details>
      ) : (
        <details>
          <summary>Add an authenticator app</summary>
          <ActionForm visit={visit} action="begin">
            <Password />
            <button>Continue</button>
          </ActionForm>
        </details>
      )}
    </section>,
    <p>
      <a class="button" href={visit.place}>
        Continue
      </a>
    </p>,
  ])
}

export const newCodesPage = (codes: readonly string[]): Page =>
  plainPage('New backup codes', null, [
    <p>Each is good for one sign-in. They are shown only now, and the codes before have ended.</p>,
    <Codes codes={codes} />,
    <p>
      <a class="button" href={secondFactorPath}>
        I have kept them
      </a>
    </p>,
  ])
