/* Paths of the console's pages to which mails, answers of the API and other pages lead. */

/** Leads each person to the first list that their role may read. */
export const homePath = '/console/'
export const signInPath = '/console/sign-in'
export const signUpPath = '/console/sign-up'
/** With `?token=`, the page sets a new password. Without it, the page sends a mail with such a link. */
export const resetPath = '/console/reset-password'
export const confirmPath = '/console/confirm-address'
export const invitationPath = '/console/invitation'
/** Enrols a second factor, and asks for the second factor in a session that was opened without it. */
export const secondFactorPath = '/console/second-factor'
export const accountPath = '/console/account'
export const inboxPath = '/console/approvals'
