/* Paths of the console's pages to which mails, answers of the API and other pages lead. */

/** This page sends each person to the first list that their role may read. */
export const homePath = '/console/'
export const signInPath = '/console/sign-in'
export const signUpPath = '/console/sign-up'
/**
 * With `?token=`, the page sets a new password. Without a token, the page sends a mail with a link that contains one.
 */
export const resetPath = '/console/reset-password'
export const confirmPath = '/console/confirm-address'
export const invitationPath = '/console/invitation'
/** On this page a person enrols a second factor, or proves it in a session that was opened without it. */
export const secondFactorPath = '/console/second-factor'
export const accountPath = '/console/account'
export const inboxPath = '/console/approvals'
