import {
  confirmPath,
  providerSignInPath,
  resetPath,
  signInPath,
  signUpPath,
  homePath,
  invitationPath,
} from '../../contract/pages.ts'
import { Code, Email, Field, NewPassword, Password } from '../parts/form.tsx'
import type { Page } from '../visit.ts'
import { KeptMails, plainPage, type Refusal } from './plain.tsx'
import { Words } from '../parts/words.tsx'
import { Island } from '../parts/island.tsx'
import { PostForm } from '../parts/layout.tsx'
import { PasskeySignIn } from '../parts/passkey.tsx'

interface SignIn {
  readonly place: string
  readonly email: string
  readonly signUp: boolean
  readonly problem: Refusal | null
}

export function signInPage({ place, email, signUp, problem }: SignIn): Page {
  return plainPage('Sign in', problem, [
    <form method="post" action={signInPath} class="fill">
      <input type="hidden" name="return" value={place} />
      <input type="hidden" name="time_zone" value="" data-time-zone="" />
      <Email value={email} />
      <Password />
      <button class="primary">Sign in</button>
    </form>,
    <Island of={PasskeySignIn} props={{ place }} />,
    <p class="links">
      <a href={`${providerSignInPath}?return=${encodeURIComponent(place)}`}>Company sign-in</a>
      <a href={resetPath}>Forgot your password?</a>
      {/* A sign-in before the confirmation is refused like a wrong password. */}
      {signUp && problem !== null ? (
        <a href={confirmPath}>Just signed up? Confirm your address first</a>
      ) : null}
      {signUp ? <a href={signUpPath}>Create an account</a> : null}
    </p>,
  ])
}

/** The address decides which provider the person is sent to. */
export function providerSignInPage({ place, email, problem }: Omit<SignIn, 'signUp'>): Page {
  return plainPage('Company sign-in', problem, [
    <p>Sign in at your company’s own page. The domain of your address says where that is.</p>,
    <form method="post" action={providerSignInPath} class="fill">
      <input type="hidden" name="return" value={place} />
      <Email value={email} />
      <button class="primary">Continue</button>
    </form>,
    <p class="links">
      <a href={`${signInPath}?return=${encodeURIComponent(place)}`}>Sign in with a password</a>
    </p>,
  ])
}

/** The answer has the header `Refresh`, because no form may lead to another site. */
export const toProviderPage = (url: string): Page =>
  plainPage('Company sign-in', null, [
    <p>
      Your company’s page at <code>{new URL(url).host}</code> opens.
    </p>,
    <p>
      <a class="button primary" href={url}>
        Open it now
      </a>
    </p>,
  ])

/** The script sends this form at once. */
export const toAssertionPage = (action: string, response: string, state: string): Page =>
  plainPage('Company sign-in', null, [
    <p>Your company’s page has answered.</p>,
    <form method="post" action={action} data-send="">
      <input type="hidden" name="SAMLResponse" value={response} />
      <input type="hidden" name="RelayState" value={state} />
      <button class="primary">Continue</button>
    </form>,
  ])

/** The second step: a code of the authenticator app, a backup code, or a passkey. */
export function codePage({
  place,
  problem,
  hasApp,
}: Pick<SignIn, 'place' | 'problem'> & { readonly hasApp: boolean }): Page {
  return plainPage('Second factor', problem, [
    hasApp ? (
      <form method="post" action={`${signInPath}/code`} class="fill">
        <input type="hidden" name="return" value={place} />
        <Code />
        <button class="primary">Continue</button>
      </form>
    ) : (
      <p>Your second factor is a passkey.</p>
    ),
    <Island of={PasskeySignIn} props={{ place }} />,
    <p>
      <a href={`${signInPath}?return=${encodeURIComponent(place)}`}>Start again with the password</a>
    </p>,
  ])
}

export function signUpPage({
  name,
  email,
  problem,
}: {
  name: string
  email: string
  problem: Refusal | null
}): Page {
  return plainPage('Create an account', problem, [
    <form method="post" action={signUpPath} class="fill">
      <Field name="name" label="Your name" autocomplete="name" most={200} value={name} />
      <Email value={email} />
      <NewPassword />
      <button class="primary">Create the account</button>
    </form>,
    <p class="links">
      <a href={signInPath}>Have an account? Sign in</a>
    </p>,
  ])
}

/** The same for every address, so that nobody learns who has an account or an invitation. */
export function signUpSentPage(email: string, folder: string | null): Page {
  return plainPage('Check your mail', null, [
    <p>
      If{' '}
      <strong>
        <Words text={email} />
      </strong>{' '}
      can have an account here, a mail is on its way to it. Open its link to confirm that the address is
      yours. Then sign in.
    </p>,
    <p class="quiet">Were you invited? After that, open the link of the invitation again.</p>,
    <KeptMails folder={folder} />,
    <p class="links">
      <a href={signInPath}>Sign in</a>
      <a href={resetPath}>Forgot your password?</a>
    </p>,
  ])
}

export const signUpClosedPage = (): Page => ({
  ...plainPage('No new accounts', null, [
    <p>This installation accepts no new accounts. Ask its operator.</p>,
    <p>
      <a href={signInPath}>Sign in</a>
    </p>,
  ]),
  status: 403,
})

/** Opening the page confirms nothing, because programs that scan mail also open links. */
export const confirmAddressPage = (token: string): Page =>
  plainPage('Confirm your address', null, [
    <p>Did you sign up with this address? If it was not you, close this page.</p>,
    <form method="post" action={confirmPath} class="fill">
      <input type="hidden" name="mailed" value={token} />
      <button class="primary">Yes, it is mine</button>
    </form>,
  ])

export const addressConfirmedPage = (): Page =>
  plainPage('Your address is confirmed', null, [
    <p>Were you invited? Then open the link of the invitation again.</p>,
    <p>
      <a class="button" href={homePath}>
        Continue
      </a>
    </p>,
  ])

interface Asked {
  readonly email: string
  readonly problem: Refusal | null
}

const askMailPage = (title: string, words: string, action: string, { email, problem }: Asked): Page =>
  plainPage(title, problem, [
    <p>{words}</p>,
    <form method="post" action={action} class="fill">
      <Email value={email} />
      <button class="primary">Send the mail</button>
    </form>,
    <p class="links">
      <a href={signInPath}>Back to the sign-in</a>
    </p>,
  ])

/** The same for every address, so that nobody learns who has an account. */
const mailSentPage = (email: string, folder: string | null, words: string): Page =>
  plainPage('Check your mail', null, [
    <p>
      If{' '}
      <strong>
        <Words text={email} />
      </strong>{' '}
      {words}
    </p>,
    <KeptMails folder={folder} />,
    <p>
      <a href={signInPath}>Back to the sign-in</a>
    </p>,
  ])

export const askConfirmPage = (asked: Asked): Page =>
  askMailPage(
    'Confirm your address',
    'You get a mail with a link. It works within a day.',
    confirmPath,
    asked,
  )

export const confirmSentPage = (email: string, folder: string | null): Page =>
  mailSentPage(email, folder, 'has an account that is not confirmed yet, a mail is on its way to it.')

export const askResetPage = (asked: Asked): Page =>
  askMailPage(
    'A new password',
    'You get a mail with a link that sets a new password. It works once, within an hour.',
    resetPath,
    asked,
  )

export const resetSentPage = (email: string, folder: string | null): Page =>
  mailSentPage(
    email,
    folder,
    'has an account, a mail is on its way to it. Its link works once, within an hour.',
  )

export const newPasswordPage = (token: string, problem: Refusal | null): Page =>
  plainPage('A new password', problem, [
    <p>It ends every session of yours, on every device.</p>,
    <form method="post" action={resetPath} class="fill">
      <input type="hidden" name="mailed" value={token} />
      <NewPassword />
      <button class="primary">Set the password</button>
    </form>,
  ])

export const passwordSetPage = (): Page =>
  plainPage('Your password is set', null, [
    <p>All your sessions have ended. Sign in with the new password.</p>,
    <p>
      <a class="button" href={signInPath}>
        Sign in
      </a>
    </p>,
  ])

interface Invitation {
  readonly organization: string
  readonly inviter: string
  readonly role: string
  readonly email: string
  /** The reader has the address. */
  readonly isProven: boolean
  /** null if the reader may not know. */
  readonly hasAccount: boolean | null
}

interface Link {
  readonly token: string
  readonly proof: string | null
}

export const invitationAt = ({ token, proof }: Link): string =>
  `${invitationPath}?token=${token}${proof === null ? '' : `&proof=${proof}`}`

const Invites = ({ invitation: { organization, inviter, role } }: { invitation: Invitation }) => (
  <p>
    <Words text={inviter} most={254} /> invites you to{' '}
    <strong>
      <Words text={organization} most={200} />
    </strong>{' '}
    as {role}.
  </p>
)

const LinkFields = ({ link: { token, proof } }: { link: Link }) => (
  <>
    <input type="hidden" name="invitation" value={token} />
    {proof === null ? null : <input type="hidden" name="proof" value={proof} />}
  </>
)

/** With the link of the mail, one form makes the account and joins. */
export function invitedPage(given: {
  invitation: Invitation
  link: Link
  signUp: boolean
  name: string
  problem: Refusal | null
}): Page {
  const { invitation, link, signUp, name, problem } = given
  const signIn = `${signInPath}?return=${encodeURIComponent(invitationAt(link))}`
  if (signUp && invitation.isProven && invitation.hasAccount === false)
    return plainPage('An invitation', problem, [
      <Invites invitation={invitation} />,
      <form method="post" action={invitationPath} class="fill">
        <LinkFields link={link} />
        <input type="hidden" name="time_zone" value="" data-time-zone="" />
        <p>
          Your account will have the address{' '}
          <strong>
            <Words text={invitation.email} most={254} />
          </strong>
          .
        </p>
        <Field name="name" label="Your name" autocomplete="name" most={200} value={name} />
        <NewPassword />
        <button class="primary">Create the account and join</button>
      </form>,
    ])
  return plainPage('An invitation', problem, [
    <Invites invitation={invitation} />,
    <p>Sign in with the address that it was sent to. Then you can accept it.</p>,
    <p>
      <a class="button primary" href={signIn}>
        Sign in
      </a>
    </p>,
    signUp && !invitation.isProven ? (
      <p>
        No account yet? <a href={signUpPath}>Create one with that address</a>, confirm it, and open this link
        again.
      </p>
    ) : null,
  ])
}

/** Opening the link does not accept the invitation; pressing the button does. */
export function acceptPage(given: {
  invitation: Invitation | null
  link: Link
  email: string
  token: string
  problem: Refusal | null
}): Page {
  return plainPage('An invitation', given.problem, [
    given.invitation === null ? null : <Invites invitation={given.invitation} />,
    <p>
      You are signed in as{' '}
      <strong>
        <Words text={given.email} />
      </strong>
      .
    </p>,
    <PostForm action={invitationPath} token={given.token} class="fill">
      <LinkFields link={given.link} />
      <button class="primary">Accept the invitation</button>
    </PostForm>,
    <p class="quiet small">
      Only the person with the invited address can accept it. If it was sent to another address of yours, sign
      out first.
    </p>,
  ])
}

export const joinedPage = ({ name, role }: { name: string; role: string }): Page =>
  plainPage('You have joined', null, [
    <p>
      You are now {role} of{' '}
      <strong>
        <Words text={name} />
      </strong>
      .
    </p>,
    <p>
      <a class="button" href={homePath}>
        Continue
      </a>
    </p>,
  ])

export const noInvitationPage = (): Page => ({
  ...plainPage('An invitation', null, [
    <p>This address has no invitation. Open the whole link of the mail.</p>,
  ]),
  status: 404,
})
