/* Mails, answers of the API and other pages link to these pages. */

/** Redirects each person to the first list that their role may read. */
export const homePath = '/console/'
export const signInPath = '/console/sign-in'
/** Asks for the address, whose domain names the provider. */
export const providerSignInPath = '/console/sign-in/provider'
/** The provider of the organization sends the browser back to this page. */
export const providerAnswerPath = '/console/sign-in/answer/:id'
/** With SAML, the provider sends a form of the browser to this page. */
export const assertionPath = '/console/sign-in/saml/:id'
export const signUpPath = '/console/sign-up'
/** Sets a new password with `?token=`. Without a token, sends a mail with such a link. */
export const resetPath = '/console/reset-password'
export const confirmPath = '/console/confirm-address'
export const invitationPath = '/console/invitation'
/** A person adds a second factor here, or proves it after a sign-in without it. */
export const secondFactorPath = '/console/second-factor'
export const accountPath = '/console/account'
/** Where a person is signed in. */
export const ownSessionsPath = '/console/account/sessions'
/** One search over everything, with `?q=`. */
export const searchPath = '/console/search'
export const inboxPath = '/console/approvals'
export const keysPath = '/console/keys'
/** Where a person signs a terminal in, with `?code=`. */
export const terminalPath = '/console/terminal'
export const workflowsPath = '/console/workflows'
export const workflowPath = (id: string): string => `${workflowsPath}/${id}`
/** The text of a new one. With `?import=yaml`, it begins empty. */
export const newWorkflowPath = '/console/workflows/new'
export const editWorkflowPath = '/console/workflows/:id/edit'
/** Versions of workflows that an owner has approved for everybody. Each has a page. */
export const templatesPath = '/console/templates'
export const templatePath = (id: string): string => `${templatesPath}/${id}`
/** A form that starts a run. */
export const startPath = '/console/workflows/:id/run'
/** The rules, for members; admins change them. */
export const rulesPath = '/console/rules'
/** The list of templates for a new rule, unfolded. */
export const ruleTemplatesPath = `${rulesPath}?templates=1#templates`
/** Rules that label what tools read stand in the list of rules too. */
export const labelRulePath = (id: string): string => `${rulesPath}/labels/${id}`
export const newLabelRulePath = labelRulePath('new')
/** What the rules would decide about a call. */
export const tryPath = '/console/rules/try'
export const peoplePath = '/console/people'
export const groupsPath = '/console/groups'
/** Every tool, and who may call it with what. Each has a page. */
export const toolsPath = '/console/tools'
export const toolPath = (name: string): string => `${toolsPath}/${encodeURIComponent(name)}`
/** The accounts of services that calls use. Each has a page. */
export const connectionsPath = '/console/connections'
export const connectionPath = (id: string): string => `${connectionsPath}/${id}`
/** With `?service=`, the form that connects it. */
export const connectPath = `${connectionsPath}/new`
/** The organization's files, and what its runs remember. */
export const dataPath = '/console/data'
export const filePath = (id: string): string => `${dataPath}/files/${id}`
export const memoryPath = (key: string): string => `${dataPath}/memory/${encodeURIComponent(key)}`
/** Who did what, for admins. */
export const auditPath = '/console/audit'
/** What holds in the organization, and its limits. */
export const settingsPath = '/console/settings'
/** The guides, and the reference of the API by its areas. */
export const docsPath = '/console/docs'
/** `name`: the document's path below docs. */
export const documentPath = (name: string): string => `${docsPath}/${name}`
export const apiAreaPath = (area: string): string => `${docsPath}/api/${area}`
/** Whether every call is denied. Owners stop everything here, and let it go on. */
export const freezePath = '/console/freeze'
/** The provider with which people sign in, for owners. */
export const providerPath = '/console/provider'
/** What starts runs without a person. Each has a page below that of its workflow. */
export const triggersPath = '/console/triggers'
/** Cancels many runs together. */
export const cancelRunsPath = '/console/runs/cancel'
export const rerunsPath = '/console/reruns'
export const rerunPath = (id: string): string => `${rerunsPath}/${id}`
export const triggerPath = (workflowId: string, id: string): string =>
  `/console/workflows/${workflowId}/triggers/${id}`
/** Addresses of programs that get messages. Each has a page. */
export const webhooksPath = '/console/webhooks'
export const webhookPath = (id: string): string => `${webhooksPath}/${id}`
/** Who was told what, and what did not arrive. */
export const notificationsPath = '/console/notifications'
/** How much was held, and how people decided. */
export const reportsPath = '/console/reports'
/** Those of the person, and a form that makes one. */
export const organizationsPath = '/console/organizations'
/** Whether the service and what it needs are well. */
export const healthPath = '/console/health'
/** How a coding agent asks first, for each client. */
export const installPath = '/console/sessions/install'
