"""`berth ui`: the page in the user's browser, through this machine, with the user's credentials.

browser -- HTTP, loopback, secret path --> Loopback -- HTTPS, credentials --> API server --> Berth

upstream   asks the API server as the user
loopback   answers the browser
opening    looks whether there is a page, and opens the browser
"""
