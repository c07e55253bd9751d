"""The pages of pyworkers inside Django's admin, with its login and its menu: `python django_pages.py 8000`.

A project of your own needs `pages` and `AdminSite`; the rest of this file is a project in one file, to be tried.
Staff may look, and who has the permission `auth.change_user` may change something: choose one of yours.
"""

import io
import os
import sys
from wsgiref.simple_server import make_server

import django
from django.conf import settings
from django.contrib import admin
from django.contrib.admin.apps import AdminConfig
from django.core.management import call_command
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse
from django.urls import path, reverse
from django.views.decorators.csrf import csrf_exempt

import goworkers_py as workers
from goworkers_py import web

# --- the view


def may(environ, action):
    return action == "view" or environ["django.user"].has_perm("auth.change_user")


application = web.application(authorize=may, title="Background jobs")


@csrf_exempt  # the pages have a protection of their own
def pages(request, rest=""):
    """Answers by the WSGI application, whether Django itself runs under WSGI or ASGI."""
    environ = {name: value for name, value in request.META.items() if isinstance(value, str)}
    environ |= {
        "SCRIPT_NAME": request.path[: len(request.path) - len(rest)].rstrip("/"),
        "PATH_INFO": f"/{rest}",
        "REMOTE_USER": request.user.get_username(),
        "django.user": request.user,
        "wsgi.url_scheme": request.scheme,
        "wsgi.input": io.BytesIO(request.body),
    }
    response = HttpResponse()

    def start_response(status, headers):
        response.status_code = int(status.split()[0])
        for name, value in headers:
            if name == "Set-Cookie":
                response.cookies.load(value)
            else:
                response[name] = value

    response.content = b"".join(application(environ, start_response))
    return response


# --- the admin


class AdminSite(admin.AdminSite):
    def get_urls(self):
        # `admin_view` sends to the login who is not of the staff.
        view = self.admin_view(pages)
        return [path("jobs/", view, name="jobs"), path("jobs/<path:rest>", view), *super().get_urls()]

    def get_app_list(self, request, app_label=None):
        """The menu, with an entry for the pages."""
        entry = {
            "name": "Queues and jobs",
            "object_name": "Jobs",
            "admin_url": reverse("admin:jobs"),
            "view_only": True,
        }
        menu = {
            "name": "Background jobs",
            "app_label": "pyworkers",
            "app_url": reverse("admin:jobs"),
            "models": [entry],
        }
        return [menu, *super().get_app_list(request, app_label)]


# --- a project in one file


class SiteConfig(AdminConfig):
    default_site = "__main__.AdminSite"


if __name__ == "__main__":
    settings.configure(
        SECRET_KEY=os.environ.get("SECRET_KEY", "of the example alone"),
        ALLOWED_HOSTS=["localhost", "127.0.0.1"],
        ROOT_URLCONF=__name__,
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "file:users?mode=memory&cache=shared"}},
        INSTALLED_APPS=[
            "__main__.SiteConfig", "django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions",
            "django.contrib.messages",
        ],
        MIDDLEWARE=[
            "django.middleware.security.SecurityMiddleware", "django.contrib.sessions.middleware.SessionMiddleware",
            "django.middleware.common.CommonMiddleware", "django.middleware.csrf.CsrfViewMiddleware",
            "django.contrib.auth.middleware.AuthenticationMiddleware",
            "django.contrib.messages.middleware.MessageMiddleware",
            "django.middleware.clickjacking.XFrameOptionsMiddleware",
        ],
        TEMPLATES=[{
            "BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True,
            "OPTIONS": {"context_processors": [
                "django.template.context_processors.request", "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]},
        }],
        DEFAULT_AUTO_FIELD="django.db.models.AutoField",
        STATIC_URL="/static/",
    )  # fmt: skip
    django.setup()
    call_command("migrate", verbosity=0)
    from django.contrib.auth.models import User

    User.objects.create_superuser("root", password=os.environ.get("PASSWORD", "root"))
    User.objects.create_user("staff", password=os.environ.get("PASSWORD", "staff"), is_staff=True)
    workers.configure(broker=os.environ.get("PYWORKERS_BROKER", "redis://localhost:6379/0"))
    urlpatterns = [path("admin/", admin.site.urls)]
    server = make_server("127.0.0.1", int(sys.argv[1]), get_wsgi_application())
    print(f"http://127.0.0.1:{server.server_port}/admin/jobs/", flush=True)
    server.serve_forever()
