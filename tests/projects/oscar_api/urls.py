from django.urls import include, path

from tests.projects.oscar.urls import urlpatterns as of_oscar

urlpatterns = [path("api/", include("oscarapi.urls")), *of_oscar]
